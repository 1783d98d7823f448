//! What people see of the locks from outside, and do to them.

use crate::engine::operations::Operations;
use crate::engine::postgres::PostgresEngine;
use crate::engine::postgres::ping::ping;
use crate::engine::postgres::view::view;
use crate::engine::request::EngineFuture;
use crate::engine::view::View;
use tokio::time::Instant;

impl Operations for PostgresEngine {
    fn ping(&self, deadline: Instant) -> EngineFuture<'_, ()> {
        Box::pin(ping(&self.requests, deadline))
    }

    fn view<'a>(&'a self, name: &'a str, most: usize, deadline: Instant) -> EngineFuture<'a, View> {
        Box::pin(view(&self.requests, name, most, deadline))
    }
}
