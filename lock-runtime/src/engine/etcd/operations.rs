//! What people see of the locks from outside, and do to them.

use crate::engine::etcd::EtcdEngine;
use crate::engine::etcd::lock::core::Core;
use crate::engine::operations::Operations;
use crate::engine::request::EngineFuture;
use crate::engine::view::View;
use tokio::time::Instant;

impl Operations for EtcdEngine {
    fn ping(&self, deadline: Instant) -> EngineFuture<'_, ()> {
        Box::pin(self.core.run(deadline, Core::ping))
    }

    fn view<'a>(&'a self, name: &'a str, most: usize, deadline: Instant) -> EngineFuture<'a, View> {
        let line = self.core.keys.line(name);
        Box::pin(self.core.run(deadline, move |core| core.view(line, most)))
    }
}
