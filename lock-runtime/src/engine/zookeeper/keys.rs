//! The paths of nodes.

use crate::process::ProcessId;
use std::fmt::Write;

/// Maps the names of locks to the paths of their nodes.
pub(crate) struct Paths {
    /// The path that all nodes have in common, without a slash at its end.
    root: String,
    /// The beginning of every name that is not part of the last component.
    directory: String,
    /// The beginning of the names whose nodes are no locks: no key begins with `:`.
    own: String,
}

impl Paths {
    /// The last `:` or `/` of the prefix separates the directory from the nodes in it.
    pub(crate) fn new(root: &str, prefix: &str) -> Paths {
        let end = prefix.rfind([':', '/']).map_or(0, |at| at + 1);
        let directory = &prefix[..end];
        let mut path = root.to_owned();
        if let Some(directory) = directory.strip_suffix([':', '/']) {
            for component in directory.split('/') {
                path.push('/');
                path += &encode(component);
            }
        }
        Paths {
            root: path,
            directory: directory.to_owned(),
            own: format!("{prefix}::"),
        }
    }

    /// Returns the path of the node whose children are the claims of a lock.
    pub(crate) fn lock(&self, name: &str) -> String {
        let rest = name.strip_prefix(&*self.directory).unwrap_or(name);
        format!("{}/{}", self.root, encode(rest))
    }

    /// Returns the path of the node whose children are the locks, beside other nodes.
    pub(crate) fn directory(&self) -> &str {
        match &*self.root {
            "" => "/",
            root => root,
        }
    }

    /// Returns the name of the lock whose node has that name in the directory; `None` if it is not a lock's.
    pub(crate) fn name(&self, component: &str) -> Option<String> {
        let rest = decode(component).filter(|rest| encode(rest) == component)?;
        let name = [&*self.directory, &rest].concat();
        (!name.starts_with(&self.own)).then_some(name)
    }

    /// Returns the path of the node whose children are the sessions.
    pub(crate) fn sessions(&self) -> String {
        self.own("sessions")
    }

    /// Returns the path of the node whose children are the reports of processes.
    pub(crate) fn processes(&self) -> String {
        self.own("processes")
    }

    /// Returns the path of the node with what processes were asked.
    pub(crate) fn asks(&self) -> String {
        self.own("asks")
    }

    /// Returns the path of the node by which others recall locks from that process.
    pub(crate) fn recalls(&self, process: ProcessId) -> String {
        format!("{}/{process}", self.own("recalls"))
    }

    fn own(&self, what: &str) -> String {
        self.lock(&[&*self.own, what].concat())
    }
}

/// Returns the paths of a node and of those above it, from the top on.
pub(crate) fn lineage(path: &str) -> impl Iterator<Item = &str> {
    let ends = path.match_indices('/').map(|(at, _)| at).skip(1);
    ends.chain([path.len()]).map(|end| &path[..end])
}

/// Returns the path of the node above that one.
pub(crate) fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

/// Returns `true` if ZooKeeper allows that text as one component of a path.
pub(crate) fn is_allowed(text: &str) -> bool {
    !is_relative(text) && !text.contains(is_refused)
}

fn is_relative(text: &str) -> bool {
    matches!(text, "." | "..")
}

fn is_refused(c: char) -> bool {
    matches!(
        c,
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..
    )
}

/// Encodes text as one component of a path: what ZooKeeper does not allow in it becomes the hexadecimal
/// digits of its UTF-8 bytes behind percent signs.
fn encode(text: &str) -> String {
    if text.is_empty() {
        return "%".to_owned();
    }
    let whole = is_relative(text);
    let mut encoded = String::with_capacity(text.len());
    for c in text.chars() {
        if whole || matches!(c, '%' | '/') || is_refused(c) {
            for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                // A `String` takes everything.
                let _ = write!(encoded, "%{byte:02X}");
            }
        } else {
            encoded.push(c);
        }
    }
    encoded
}

/// Returns the text of a component; `None` if it is not the encoding of one.
fn decode(component: &str) -> Option<String> {
    if component == "%" {
        return Some(String::new());
    }
    let mut parts = component.split('%');
    let mut decoded = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let digits = part.get(..2)?;
        decoded.push(u8::from_str_radix(digits, 16).ok()?);
        decoded.extend(part.get(2..)?.as_bytes());
    }
    String::from_utf8(decoded).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_separator_of_the_prefix_begins_the_node() {
        let path = |root, prefix: &str, key| Paths::new(root, prefix).lock(&[prefix, key].concat());
        assert_eq!(path("", "lock:", "order/7"), "/lock/order%2F7");
        assert_eq!(path("/app", "shop:lock:", "a:b"), "/app/shop:lock/a:b");
        assert_eq!(path("", "a/b/c", "d"), "/a/b/cd");
        assert_eq!(path("", "", "d"), "/d");
        assert_eq!(path("", "lock", "a"), "/locka");
        assert_eq!(path("", "/a//b:", "c"), "/%/a/%/b/c");
        let paths = Paths::new("/x", "lock:");
        assert_eq!(paths.sessions(), "/x/lock/::sessions");
        assert_eq!(Paths::new("", "lock").asks(), "/lock::asks");
    }

    #[test]
    fn names_are_found_from_paths() {
        for (prefix, key) in [
            ("lock:", "order/7"),
            ("a/b:", "%2E"),
            ("", ".."),
            ("lock", "\u{1}🔒"),
        ] {
            let (paths, name) = (Paths::new("/x", prefix), [prefix, key].concat());
            let path = paths.lock(&name);
            let component = path.strip_prefix(paths.directory()).unwrap();
            assert_eq!(paths.name(&component[1..]), Some(name));
        }
        let paths = Paths::new("", "lock:");
        for other in [
            "::sessions",
            "::asks",
            "a%2",
            "a%2f",
            "%FF",
            "a%zz",
            "a%+1",
            "%ö",
            "a%41",
        ] {
            assert_eq!(paths.name(other), None, "{other}");
        }
        assert_eq!(Paths::new("", "lo").directory(), "/");
        assert_eq!(Paths::new("", "lock").name("lock::asks"), None);
    }

    #[test]
    fn odd_keys_have_different_paths() {
        let keys = [
            ".", "..", "%2E", "/", "%", "", "\0", "\u{7f}", "ö", "日", "🔒", "\u{f000}", " ",
        ];
        let mut paths: Vec<_> = keys.iter().map(|key| encode(key)).collect();
        for path in &paths {
            assert!(!path.contains(['/', '\0', '🔒']) && path != "." && path != "..");
        }
        paths.sort();
        paths.dedup();
        assert_eq!(paths.len(), keys.len());
    }

    #[test]
    fn a_lineage_begins_at_the_top() {
        assert!(lineage("/a/b/c").eq(["/a", "/a/b", "/a/b/c"]));
        assert!(lineage("/a").eq(["/a"]));
    }
}
