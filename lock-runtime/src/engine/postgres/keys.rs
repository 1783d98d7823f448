//! The names of locks as the tables store them: text that people can read, without NUL, and short enough for
//! an index.

use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::fmt::Write;

/// The greatest length of a stored name, in bytes.
const MAX_LEN: usize = 1000;
/// How much of a longer one remains readable.
const READABLE_LEN: usize = 900;

/// Returns `true` if the stored name is the whole name.
pub(crate) fn is_stored_whole(name: &str) -> bool {
    escaped(name).len() <= MAX_LEN
}

/// Returns the name under which a lock is stored. Of a long one, the end is replaced by a hash of the whole.
pub(crate) fn stored(name: &str) -> Cow<'_, str> {
    let escaped = escaped(name);
    if escaped.len() <= MAX_LEN {
        return escaped;
    }
    let is_within = |(at, c): &(usize, char)| at + c.len_utf8() <= READABLE_LEN;
    let readable = escaped.char_indices().take_while(is_within);
    let mut short: String = readable.map(|(_, c)| c).collect();
    // An escape stays whole, or goes.
    let backslashes = short.len() - short.trim_end_matches('\\').len();
    short.truncate(short.len() - backslashes % 2);
    short.push_str("...");
    for byte in Sha256::digest(escaped.as_bytes()) {
        // Writing to a string never fails.
        let _ = write!(short, "{byte:02x}");
    }
    Cow::Owned(short)
}

/// Returns the name, or the beginning of one, as it is stored unless it is long.
pub(crate) fn escaped(name: &str) -> Cow<'_, str> {
    match name.contains(['\\', '\0']) {
        true => Cow::Owned(name.replace('\\', "\\\\").replace('\0', "\\0")),
        false => Cow::Borrowed(name),
    }
}

/// Returns a name that is stored like this one.
pub(crate) fn original(stored: &str) -> String {
    stored
        .split("\\\\")
        .map(|part| part.replace("\\0", "\0"))
        .collect::<Vec<_>>()
        .join("\\")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names_are_stored_readably() {
        for (name, expected) in [
            ("lock:a b", "lock:a b"),
            ("lock:\\0", "lock:\\\\0"),
            ("lock:\0\\\0", "lock:\\0\\\\\\0"),
        ] {
            assert_eq!(stored(name), expected);
            assert_eq!(original(expected), name);
            assert!(is_stored_whole(name));
        }
    }

    #[test]
    fn long_names_are_stored_by_their_hash() {
        let long = |end: &str| "ä\\".repeat(500) + end;
        let (one, other) = (long("1"), long("2"));
        assert_ne!(stored(&one), stored(&other));
        assert!(!is_stored_whole(&one) && is_stored_whole(&original(&stored(&one))));
        assert!(stored(&one).len() <= MAX_LEN);
        assert_eq!(stored(&original(&stored(&one))), stored(&one));
    }
}
