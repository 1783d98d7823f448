//! What is measured.

mod contended;
mod free;
mod handoff;
mod line;

use crate::{Bench, crew};

pub struct Work {
    pub name: &'static str,
    pub run: fn(&mut Bench),
}

pub const ALL: &[Work] = &[
    Work {
        name: "alone",
        run: free::alone,
    },
    Work {
        name: "many",
        run: free::many,
    },
    Work {
        name: "line",
        run: line::line,
    },
    Work {
        name: "contended",
        run: contended::contended,
    },
    Work {
        name: "handoff",
        run: handoff::handoff,
    },
];

/// The life of a child that does work of that kind.
pub fn child(kind: &str, arguments: &[String]) {
    match kind {
        crew::KIND => crew::child(arguments),
        handoff::KIND => handoff::child(arguments),
        handoff::BARE => handoff::bare_child(arguments),
        _ => panic!("`{kind}` {arguments:?} is no work"),
    }
}
