//! What the attribute makes of a function, and what its calls tell.

mod future_size;
mod signatures;
mod support;
mod tracing;
#[path = "../lock-macros/tests/ui.rs"]
mod ui;
