//! What is measured.

mod free;

use crate::Bench;

pub struct Work {
    pub name: &'static str,
    pub run: fn(&mut Bench),
}

pub const ALL: &[Work] = &[
    Work { name: "alone", run: free::alone },
    Work { name: "many", run: free::many },
];

/// The life of a child that does work of that kind.
pub fn child(kind: &str, arguments: &[String]) {
    match kind {
        _ => panic!("`{kind}` {arguments:?} is no work"),
    }
}
