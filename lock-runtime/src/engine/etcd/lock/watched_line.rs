//! A line that a watch follows. The watch begins before the line is read: to one that begins in the past, a
//! server reports nothing for up to 100 ms.

use crate::engine::common::line::{Line, Place};
use crate::engine::common::upkeep::Kept;
use crate::engine::etcd::conn::connection::Connection;
use crate::engine::etcd::wire::messages::{Event, KeyValue, WatchResponse};
use crate::util::time::{elapsed_since, now};
use prost::bytes::Bytes;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::time::Instant;

/// How long a watch is believed.
const MAX_AGE: Duration = Duration::from_secs(10);

#[derive(Clone)]
pub(crate) struct WatchedLine {
    pub(crate) watch: i64,
    connection: Weak<Connection>,
    started: Instant,
    /// The server reports all changes after this revision; `None` until it has said so.
    begin: Option<i64>,
    /// What was reported while the line was read.
    early: Vec<Event>,
    read: Option<Read>,
    is_over: bool,
}

/// A line as it was read at a revision, with the changes since.
#[derive(Clone)]
struct Read {
    line: Line<KeyValue>,
    revision: i64,
}

impl WatchedLine {
    pub(crate) fn new(watch: i64, connection: &Arc<Connection>) -> WatchedLine {
        WatchedLine {
            watch,
            connection: Arc::downgrade(connection),
            started: now(),
            begin: None,
            early: Vec::new(),
            read: None,
            is_over: false,
        }
    }

    /// Returns `true` if the watch is one of that connection, and can be believed.
    pub(crate) fn is_of(&self, connection: &Arc<Connection>) -> bool {
        self.is_live() && self.connection.as_ptr() == Arc::as_ptr(connection)
    }

    /// Returns `true` while the watch can be believed.
    pub(crate) fn is_live(&self) -> bool {
        let connection = self.connection.upgrade();
        let is_up = connection.is_some_and(|connection| !connection.has_ended());
        is_up && !self.is_over && elapsed_since(self.started) < MAX_AGE
    }

    pub(crate) fn end(&mut self) {
        self.is_over = true;
    }

    /// Forgets the line, which is read again.
    pub(crate) fn begin_to_read(&mut self) {
        self.read = None;
    }

    /// Takes the line as it was read at that revision.
    pub(crate) fn read(&mut self, line: Line<KeyValue>, revision: i64) {
        let mut read = Read { line, revision };
        for event in self.early.drain(..) {
            read.follow(&event);
        }
        self.read = Some(read);
    }

    /// Follows what the watch reports.
    pub(crate) fn follow(&mut self, message: &WatchResponse) {
        if message.created {
            self.begin = message.header.as_ref().map(|header| header.revision);
        }
        match &mut self.read {
            Some(read) => message.events.iter().for_each(|event| read.follow(event)),
            None => self.early.extend_from_slice(&message.events),
        }
    }

    pub(crate) fn is_read(&self) -> bool {
        self.read.is_some()
    }

    /// Returns `true` if the line was read before the watch began: a change between them may be missing.
    pub(crate) fn is_too_old(&self) -> bool {
        let read = self.read.as_ref().zip(self.begin);
        read.is_some_and(|(read, begin)| read.revision < begin)
    }

    /// Returns the place of the claim with that key and value, if no change is missing.
    pub(crate) fn place_of(&self, key: &Bytes, value: &Bytes) -> Option<Place> {
        let read = self.read.as_ref().filter(|_| !self.is_too_old())?;
        read.line.place_of(|kv| kv.key == key && kv.value == value)
    }
}

impl Read {
    /// Follows a change. Those that the line contains already are ignored.
    fn follow(&mut self, event: &Event) {
        let Some(kv) = &event.kv else {
            return;
        };
        if kv.mod_revision <= self.revision {
            return;
        }
        let entries = self.line.entries_mut();
        let known = entries.iter().position(|entry| entry.key == kv.key);
        match (known, event.kind) {
            (Some(at), 1) => drop(entries.remove(at)),
            (Some(at), _) => entries[at] = kv.clone(),
            (None, 0) => entries.push(kv.clone()),
            (None, _) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::etcd::wire::messages::{Header, KeyValue};

    fn kv(key: &'static str, revision: i64) -> KeyValue {
        KeyValue {
            key: Bytes::from_static(key.as_bytes()),
            mod_revision: revision,
            ..KeyValue::default()
        }
    }

    fn begins(revision: i64) -> WatchResponse {
        let header = Some(Header { revision });
        WatchResponse {
            header,
            created: true,
            ..WatchResponse::default()
        }
    }

    fn deletes(key: &'static str, revision: i64) -> WatchResponse {
        let kv = Some(kv(key, revision));
        WatchResponse {
            events: vec![Event { kind: 1, kv }],
            ..WatchResponse::default()
        }
    }

    fn watched() -> WatchedLine {
        WatchedLine {
            watch: 1,
            connection: Weak::new(),
            started: now(),
            begin: None,
            early: Vec::new(),
            read: None,
            is_over: false,
        }
    }

    /// Reads the holder and the claim at that revision.
    fn read_both(watched: &mut WatchedLine, revision: i64) {
        watched.read(Line::new(vec![kv("holder", 3), kv("mine", 5)]), revision);
    }

    fn place(watched: &WatchedLine) -> Option<&'static str> {
        let place = watched.place_of(&Bytes::from_static(b"mine"), &Bytes::new())?;
        Some(match place {
            Place::Holds => "holds",
            Place::Waits { .. } => "waits",
        })
    }

    #[test]
    fn what_is_reported_while_the_line_is_read_counts_once() {
        for (deleted, expected) in [(6, "holds"), (5, "waits")] {
            let mut watched = watched();
            watched.follow(&begins(4));
            watched.follow(&deletes("holder", deleted));
            assert_eq!(place(&watched), None);
            read_both(&mut watched, 5);
            assert_eq!(place(&watched), Some(expected), "{deleted}");
        }
    }

    #[test]
    fn a_line_that_was_read_before_the_watch_began_is_read_again() {
        let mut watched = watched();
        read_both(&mut watched, 5);
        assert_eq!(place(&watched), Some("waits"));
        watched.follow(&begins(7));
        assert!(watched.is_too_old());
        assert_eq!(place(&watched), None);
        watched.begin_to_read();
        read_both(&mut watched, 7);
        watched.follow(&deletes("holder", 8));
        assert_eq!(place(&watched), Some("holds"));
    }

    #[test]
    fn a_line_follows_its_changes() {
        let kv = |key, limit: &str, revision| KeyValue {
            value: format!("0123456789abcdef0123456789abcdef{limit}").into(),
            ..kv(key, revision)
        };
        let mut read = Read {
            line: Line::new(vec![kv("a", "", 1), kv("b", "/2047", 2)]),
            revision: 2,
        };
        let mut places_after = |kind, change| {
            let kv = Some(change);
            read.follow(&Event { kind, kv });
            let place = |entry: &KeyValue| match read.line.place_of(|kv| kv.key == entry.key) {
                Some(Place::Waits { ahead, .. }) => format!("{ahead}"),
                _ => "h".to_owned(),
            };
            read.line.entries().iter().map(place).collect::<String>()
        };
        assert_eq!(places_after(0, kv("c", "/2047", 3)), "h01");
        // The holder lets readers enter.
        assert_eq!(places_after(0, kv("a", "/2047", 4)), "hhh");
        // The same key, created again, is the last.
        assert_eq!(places_after(1, kv("a", "", 5)), "hh");
        assert_eq!(places_after(0, kv("a", "", 6)), "hh0");
        assert_eq!(places_after(1, kv("b", "", 1)), "hh0", "an old change");
    }
}
