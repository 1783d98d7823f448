//! Tests the attribute: the functions it accepts, the size of their futures, and the events of their calls.

mod blocking;
mod events;
mod future_size;
mod guide;
mod metrics;
mod paused;
mod signatures;
mod spawned;
mod testing;
mod tracing;
#[path = "../../lock-macros/tests/ui.rs"]
mod ui;
mod virtual_time;
