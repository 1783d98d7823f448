//! What people see of the locks from outside, and do to them.

use crate::engine::operations::Operations;
use crate::engine::request::EngineFuture;
use crate::engine::view::View;
use crate::engine::zookeeper::ZooKeeperEngine;
use tokio::time::Instant;

impl Operations for ZooKeeperEngine {
    fn ping(&self, deadline: Instant) -> EngineFuture<'_, ()> {
        Box::pin(self.ping(deadline))
    }

    fn view<'a>(&'a self, name: &'a str, most: usize, deadline: Instant) -> EngineFuture<'a, View> {
        Box::pin(self.view(name, most, deadline))
    }
}
