//! The keys of locks, in the layout of etcd's own locks.

use prost::bytes::Bytes;
use uuid::Uuid;

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
    pub(crate) fn line(&self, name: &str) -> (Bytes, Bytes) {
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

    /// Returns a key of a line as people know it, without the prefix. Another client may have written any bytes.
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

#[cfg(test)]
mod tests {
    use super::*;

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
