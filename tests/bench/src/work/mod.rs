//! The workloads.

mod check;
mod contended;
mod crowd;
mod delayed;
pub mod engines;
mod fair;
mod free;
mod handoff;
mod held;
mod idle;
mod kinds;
mod lazy;
mod line;
mod peers;
mod plots;
mod size;

use crate::{Bench, process_group};

/// Work on Redis.
pub struct Work {
    pub name: &'static str,
    pub run: fn(&mut Bench),
}

macro_rules! all {
    ($($module:ident::$name:ident),* $(,)?) => {
        pub const ALL: &[Work] = &[$(Work { name: stringify!($name), run: $module::$name }),*];
    };
}

all! {
    free::alone,
    free::many,
    delayed::delayed,
    line::line,
    contended::contended,
    handoff::handoff,
    crowd::crowd,
    idle::idle,
    held::held,
    held::memory,
    held::million,
    fair::fair,
    lazy::lazy,
    kinds::kinds,
    peers::peers,
    size::size,
    check::check,
    plots::scale,
    plots::waiting,
}

/// Runs a child process for one kind of work.
pub fn child(kind: &str, arguments: &[String]) {
    match kind {
        process_group::KIND => process_group::child(arguments),
        handoff::KIND => handoff::child(arguments),
        handoff::BARE => handoff::bare_child(arguments),
        lazy::KIND => lazy::child(arguments),
        held::KIND => held::child(arguments),
        kinds::mix::KIND => kinds::mix::child(arguments),
        kinds::transfers::KIND => kinds::transfers::child(arguments),
        _ => panic!("unknown kind of work `{kind}`"),
    }
}
