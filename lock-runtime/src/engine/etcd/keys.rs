//! The keys of locks, in the layout of etcd's own locks.

use crate::process::ProcessId;
use prost::bytes::Bytes;
use uuid::Uuid;

/// Keys from the first one up to the second, without that.
pub(crate) type Range = (Bytes, Bytes);

/// The keys of one process.
#[derive(Clone)]
pub(crate) struct Keys {
    prefix: String,
    /// 16 hexadecimal digits, drawn once.
    process: String,
}

impl Keys {
    pub(crate) fn new(prefix: &str) -> Keys {
        let (process, _) = Uuid::new_v4().as_u64_pair();
        Keys {
            prefix: prefix.to_owned(),
            process: format!("{process:016x}"),
        }
    }

    /// Returns the first key of a lock's line, and the first one behind the line. `name` is prefix and key.
    pub(crate) fn line(&self, name: &str) -> Range {
        let line = self.folder(name);
        let (mut first, mut end) = (line.clone().into_bytes(), line.into_bytes());
        first.push(b'/');
        end.push(b'0');
        (first.into(), end.into())
    }

    /// Returns the key of a claim with that number.
    pub(crate) fn claim(&self, name: &str, number: u32) -> Bytes {
        format!("{}/{}.{number}", self.folder(name), self.process).into()
    }

    /// Returns the key that names the connection whose writes count. No lock has a key there.
    pub(crate) fn epoch(&self) -> Bytes {
        format!("{}::epochs:{}", self.prefix, self.process).into()
    }

    /// Returns the key whose revisions are fencing tokens.
    pub(crate) fn fence(&self) -> Bytes {
        format!("{}::fence", self.prefix).into()
    }

    /// Returns the key of the report of a process.
    pub(crate) fn report(&self, process: ProcessId) -> Bytes {
        format!("{}::process:{process}", self.prefix).into()
    }

    /// Returns the range of the reports of processes.
    pub(crate) fn reports(&self) -> Range {
        let of_all = format!("{}::process:", self.prefix);
        (of_all.clone().into(), end_of(of_all))
    }

    /// Returns the process whose report is under that key.
    pub(crate) fn reporter(&self, key: &[u8]) -> Option<ProcessId> {
        let rest = key.strip_prefix(self.prefix.as_bytes())?;
        let id = rest.strip_prefix(b"::process:")?;
        ProcessId::parse(std::str::from_utf8(id).ok()?)
    }

    /// Returns the key whose changes all processes receive.
    pub(crate) fn asks(&self) -> Bytes {
        format!("{}::asks", self.prefix).into()
    }

    /// Returns the key by which others recall locks from that process.
    pub(crate) fn recalls(&self, process: ProcessId) -> Bytes {
        format!("{}::recalls:{process}", self.prefix).into()
    }

    /// Returns the ranges of the lines of locks whose names have that prefix. No key of a lock begins with a
    /// colon.
    pub(crate) fn lines(&self, prefix: &str) -> Vec<Range> {
        let (first, all) = (self.folder(prefix), self.prefix.clone());
        match first.strip_prefix(&self.prefix) {
            Some("") => vec![
                (start_of(&all), format!("{all}:").into()),
                (format!("{all};").into(), end_of(all)),
            ],
            Some(key) if key.starts_with(':') => Vec::new(),
            _ => vec![(first.clone().into(), end_of(first))],
        }
    }

    /// Returns the name of the lock in whose line that key is.
    pub(crate) fn name_of(&self, key: &[u8]) -> Option<String> {
        let rest = key.strip_prefix(self.prefix.as_bytes())?;
        let slash = rest.iter().position(|byte| *byte == b'/')?;
        let folder = std::str::from_utf8(&rest[..slash]).ok()?;
        let name = format!(
            "{}{}",
            self.prefix,
            folder.replace("%2F", "/").replace("%25", "%")
        );
        // Another client may write what no name is written as.
        let is_name = !folder.is_empty() && !folder.starts_with(':');
        (is_name && self.line(&name).0 == key[..=self.prefix.len() + slash]).then_some(name)
    }

    /// Returns a key of a line as people know it, without the prefix. Another client may have written any
    /// bytes.
    pub(crate) fn shown(&self, key: &[u8]) -> Box<str> {
        let rest = key.strip_prefix(self.prefix.as_bytes()).unwrap_or(key);
        String::from_utf8_lossy(rest).into()
    }

    /// Returns prefix and key, without a slash in the key: no line is within another.
    fn folder(&self, name: &str) -> String {
        let key = name.strip_prefix(&self.prefix).unwrap_or(name);
        let mut folder = String::with_capacity(name.len() + 8);
        folder.push_str(&self.prefix);
        for c in key.chars() {
            match c {
                '/' => folder.push_str("%2F"),
                '%' => folder.push_str("%25"),
                c => folder.push(c),
            }
        }
        folder
    }
}

/// Returns the first key of a range that begins with this text; the server has no empty key.
fn start_of(text: &str) -> Bytes {
    match text {
        "" => Bytes::from_static(b"\0"),
        text => text.to_owned().into(),
    }
}

/// Returns the first key behind all that begin with this text; if that is all keys, what the server takes for
/// their end.
fn end_of(text: String) -> Bytes {
    let mut end = text.into_bytes();
    match end.last_mut() {
        // No text has a byte of 255.
        Some(last) => *last += 1,
        None => end.push(0),
    }
    end.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_lock_is_read_from_its_line() {
        let keys = Keys::new("app/lock:");
        for name in [
            "app/lock:a",
            "app/lock:a/b%",
            "app/lock:%2F",
            "app/lock:%252F/",
            "app/lock:ä b",
        ] {
            assert_eq!(keys.name_of(&keys.claim(name, 3)).as_deref(), Some(name));
        }
        for key in [
            &b"app/lock:"[..],
            b"app/lock:/1",
            b"app/lock:a",
            b"app/lock:a%/1",
            b"app/lock:%2f/1",
            b"app/lock:%41/1",
            b"app/lock:\xff/1",
            b"app/lock:::process:a/1",
            b"other/1",
        ] {
            assert_eq!(keys.name_of(key), None, "{key:?}");
        }
    }

    #[test]
    fn the_ranges_of_names_are_without_other_keys() {
        for (prefix, names, expected) in [
            ("lock:", "lock:", "lock:..lock:: lock:;..lock;"),
            ("lock:", "lock:a/", "lock:a%2F..lock:a%2G"),
            ("lock:", "lock::", ""),
            ("", "", "\0..: ;..\0"),
            ("", "a", "a..b"),
        ] {
            let ranges = Keys::new(prefix).lines(names);
            let text = |key: &Bytes| String::from_utf8_lossy(key).into_owned();
            let ranges = ranges
                .iter()
                .map(|(first, end)| format!("{}..{}", text(first), text(end)));
            assert_eq!(
                ranges.collect::<Vec<_>>().join(" "),
                expected,
                "{prefix:?} {names:?}"
            );
        }
    }

    #[test]
    fn the_process_of_a_report_is_read_from_its_key() {
        let keys = Keys::new("lock:");
        let id = ProcessId::random();
        let (first, end) = keys.reports();
        let key = keys.report(id);
        assert!(first < key && key < end);
        assert_eq!(keys.reporter(&key), Some(id));
        for key in [
            "lock:::process:",
            "lock:::process:7be01c",
            "lock:::process:7be01c5/",
            "lock:::epochs:7be01c5",
        ] {
            assert_eq!(keys.reporter(key.as_bytes()), None, "{key}");
        }
    }

    #[test]
    fn no_line_is_within_another() {
        let keys = Keys::new("app/lock:");
        assert_eq!(keys.line("app/lock:a/b%").0, "app/lock:a%2Fb%25/");
        assert_eq!(keys.line("app/lock:a/b%").1, "app/lock:a%2Fb%250");
        let (first, end) = keys.line("app/lock:a");
        for (name, within) in [
            ("app/lock:a", true),
            ("app/lock:a/b", false),
            ("app/lock:a0", false),
        ] {
            let claim = keys.claim(name, 3);
            assert_eq!(first <= claim && claim < end, within, "{name}");
        }
    }
}
