//! The URL of a file: `sqlite:///var/lib/locks.db`, or `sqlite://locks.db` in the working directory.

use crate::engine::url::percent_decode;
use std::path::PathBuf;

/// Returns the path that a URL names.
pub(crate) fn parse(url: &str) -> Result<PathBuf, String> {
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    let problem = match rest {
        "" => "it names no file",
        ":memory:" => "for locks in the memory of one process, use `memory://`",
        _ if rest.contains(['?', '#']) => {
            "it takes no parameters; write `?` and `#` in a file name as `%3F` and `%23`"
        }
        _ if rest.ends_with('/') => "it names a directory; add the name of a file",
        _ => match percent_decode(rest) {
            Ok(path) if path.contains('\0') => "a file name has no NUL",
            Ok(path) => return Ok(PathBuf::from(path)),
            Err(problem) => problem,
        },
    };
    Err(format!(
        "the URL `{url}` is invalid: {problem}; write it like `sqlite:///var/lib/locks.db`"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_decoded() {
        for (url, path) in [
            ("sqlite:///var/lib/locks.db", "/var/lib/locks.db"),
            ("sqlite://locks.db", "locks.db"),
            ("sqlite://../a%20b%3F%25", "../a b?%"),
            ("sqlite:///%C3%A4", "/ä"),
        ] {
            assert_eq!(parse(url), Ok(PathBuf::from(path)));
        }
    }

    #[test]
    fn urls_without_a_file_are_refused() {
        for (url, word) in [
            ("sqlite://", "no file"),
            ("sqlite://:memory:", "memory://"),
            ("sqlite:///x?mode=ro", "%3F"),
            ("sqlite:///x#y", "%23"),
            ("sqlite:///var/lib/", "directory"),
            ("sqlite:///%", "hexadecimal"),
            ("sqlite:///%FF", "UTF-8"),
            ("sqlite:///x%00", "NUL"),
        ] {
            let problem = parse(url).unwrap_err();
            assert!(problem.contains(word), "{problem}");
            assert!(problem.contains("sqlite:///var"), "{problem}");
        }
    }
}
