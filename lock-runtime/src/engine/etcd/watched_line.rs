//! A line that a watch follows. The watch begins before the line is read: to one that begins in the past, a server
//! reports nothing for up to 100 ms.

use crate::engine::etcd::connection::Connection;
use crate::engine::etcd::line::{Line, Place};
use crate::engine::etcd::messages::{Event, WatchResponse};
use crate::util::time::{elapsed_since, now};
use prost::bytes::Bytes;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::time::Instant;

/// How long a watch is believed.
const MAX_AGE: Duration = Duration::from_secs(10);

#[derive(Clone)]
pub(super) struct WatchedLine {
    pub(super) watch: i64,
    connection: Weak<Connection>,
    started: Instant,
    /// The server reports all changes after this revision; `None` until it has said so.
    begin: Option<i64>,
    /// What was reported while the line was read.
    early: Vec<Event>,
    line: Option<Line>,
    is_over: bool,
}

impl WatchedLine {
    pub(super) fn new(watch: i64, connection: &Arc<Connection>) -> WatchedLine {
        WatchedLine {
            watch,
            connection: Arc::downgrade(connection),
            started: now(),
            begin: None,
            early: Vec::new(),
            line: None,
            is_over: false,
        }
    }

    /// Returns `true` if the watch is one of that connection, and can be believed.
    pub(super) fn is_of(&self, connection: &Arc<Connection>) -> bool {
        self.is_live() && self.connection.as_ptr() == Arc::as_ptr(connection)
    }

    /// Returns `true` while the watch can be believed.
    pub(super) fn is_live(&self) -> bool {
        let connection = self.connection.upgrade();
        let is_up = connection.is_some_and(|connection| !connection.has_ended());
        is_up && !self.is_over && elapsed_since(self.started) < MAX_AGE
    }

    pub(super) fn end(&mut self) {
        self.is_over = true;
    }

    /// Forgets the line, which is read again.
    pub(super) fn begin_to_read(&mut self) {
        self.line = None;
    }

    /// Takes what was read. Returns it with all changes since, unless one may be missing.
    pub(super) fn read(&mut self, mut line: Line) -> Option<&Line> {
        for event in self.early.drain(..) {
            line.apply(&event);
        }
        self.line = Some(line);
        self.line()
    }

    /// Follows what the watch reports.
    pub(super) fn follow(&mut self, message: &WatchResponse) {
        if message.created {
            self.begin = message.header.as_ref().map(|header| header.revision);
        }
        match &mut self.line {
            Some(line) => message.events.iter().for_each(|event| line.apply(event)),
            None => self.early.extend_from_slice(&message.events),
        }
    }

    pub(super) fn is_read(&self) -> bool {
        self.line.is_some()
    }

    /// Returns `true` if the line was read before the watch began: a change between them may be missing.
    pub(super) fn is_too_old(&self) -> bool {
        let line = self.line.as_ref().zip(self.begin);
        line.is_some_and(|(line, begin)| line.revision() < begin)
    }

    /// Returns the place of the claim with that key and value, if no change is missing.
    pub(super) fn place_of(&self, key: &Bytes, value: &Bytes) -> Option<Place> {
        self.line()?.place_of(key, value)
    }

    fn line(&self) -> Option<&Line> {
        self.line.as_ref().filter(|_| !self.is_too_old())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::etcd::messages::{Header, KeyValue};

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
            line: None,
            is_over: false,
        }
    }

    /// The holder and the claim, as of that revision.
    fn both(revision: i64) -> Line {
        Line::new(vec![kv("holder", 3), kv("mine", 5)], revision)
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
            assert!(watched.read(both(5)).is_some());
            assert_eq!(place(&watched), Some(expected), "{deleted}");
        }
    }

    #[test]
    fn a_line_that_was_read_before_the_watch_began_is_read_again() {
        let mut watched = watched();
        assert!(watched.read(both(5)).is_some());
        assert_eq!(place(&watched), Some("waits"));
        watched.follow(&begins(7));
        assert!(watched.is_too_old());
        assert_eq!(place(&watched), None);
        watched.begin_to_read();
        assert!(watched.read(both(7)).is_some());
        watched.follow(&deletes("holder", 8));
        assert_eq!(place(&watched), Some("holds"));
    }
}
