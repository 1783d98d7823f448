//! What people see of the locks from outside, and do to them.

use crate::engine::operations::Operations;
use crate::engine::redis::RedisEngine;
use crate::engine::request::EngineFuture;
use crate::engine::view::View;
use tokio::time::Instant;

impl Operations for RedisEngine {
    fn ping(&self, deadline: Instant) -> EngineFuture<'_, ()> {
        Box::pin(self.locks.ping(deadline))
    }

    fn view<'a>(&'a self, name: &'a str, most: usize, deadline: Instant) -> EngineFuture<'a, View> {
        Box::pin(self.locks.view(name, most, deadline))
    }
}
