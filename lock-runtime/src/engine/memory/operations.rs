//! What people see of the locks from outside, and do to them.

use crate::engine::memory::{MemoryEngine, ready};
use crate::engine::operations::Operations;
use crate::engine::request::EngineFuture;
use crate::engine::view::View;
use tokio::time::Instant;

impl Operations for MemoryEngine {
    fn ping(&self, _: Instant) -> EngineFuture<'_, ()> {
        ready(())
    }

    fn view<'a>(&'a self, name: &'a str, most: usize, _: Instant) -> EngineFuture<'a, View> {
        ready(self.store.view(name, most))
    }
}
