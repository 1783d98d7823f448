//! What people see of the locks from outside, and do to them.

use crate::engine::operations::Operations;
use crate::engine::quorum::QuorumEngine;
use crate::engine::quorum::ping::ping;
use crate::engine::quorum::view::view;
use crate::engine::request::EngineFuture;
use crate::engine::view::View;
use tokio::time::Instant;

impl Operations for QuorumEngine {
    fn ping(&self, deadline: Instant) -> EngineFuture<'_, ()> {
        Box::pin(ping(&self.members, deadline))
    }

    fn view<'a>(&'a self, name: &'a str, most: usize, deadline: Instant) -> EngineFuture<'a, View> {
        Box::pin(view(&self.members, name, most, deadline))
    }
}
