//! Makes everything go wrong that can, and looks at what came of it.
#![allow(dead_code, reason = "in the making")]

mod book;
mod clock;
mod event;
mod fault;
mod history;

fn main() {}
