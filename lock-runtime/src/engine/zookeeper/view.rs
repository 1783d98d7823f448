//! Reads who holds a lock and who waits for it.

use crate::engine::error::EngineError;
use crate::engine::view::View;
use crate::engine::zookeeper::ZooKeeperEngine;
use crate::engine::zookeeper::lock::entry::Child;
use crate::engine::zookeeper::lock::look::look_in_sync;
use crate::limit::Limit;
use tokio::time::Instant;

impl ZooKeeperEngine {
    /// Looks at a lock, and at its first waiters, in the session of the locks with the default ttl.
    ///
    /// It sees all that was done before it, since the server first catches up with the leader. No write proves that this
    /// leader still is one: for the seconds that a replaced one takes to notice, a view may show the past.
    pub(crate) async fn view(
        &self,
        name: &str,
        most: usize,
        deadline: Instant,
    ) -> Result<View, EngineError> {
        let (lock, session) = (
            self.claims.paths.lock(name),
            self.claims.sessions.of(self.default_ttl),
        );
        // As one that may share the lock, to which it matters whether the first claim was downgraded.
        let look = async move { look_in_sync(&session, &lock, Limit::UNLIMITED, deadline).await };
        let line = self.claims.run(deadline, look).await?;
        Ok(line.map_or_else(View::default, |line| line.view(most, Child::text)))
    }
}
