//! Where the promises are tested: a Redis server.

use std::ops::Deref;
use std::time::Duration;

use lock_runtime::LockManager;

use crate::support::server::Server;

/// Dropped in this order: the managers first, then the server looks for what they left.
pub struct Site {
    locks: LockManager,
    server: Server,
}

impl Site {
    pub async fn start() -> Self {
        let server = Server::start();
        let locks = LockManager::connect(server.url()).await.unwrap();
        Self { locks, server }
    }

    pub fn locks(&self) -> &LockManager {
        &self.locks
    }

    /// One that shares nothing with the first but the server, as another process would.
    pub async fn another(&self) -> LockManager {
        LockManager::connect(self.server.url()).await.unwrap()
    }

    pub fn is_held(&self, key: &str) -> bool {
        self.server.exists(&format!("lock:{key}"))
    }

    /// Every lock has a ttl of half a minute here: who finds it free sees a release.
    #[track_caller]
    pub fn until_free(&self, key: &str, limit: Duration) {
        self.server.until_gone(&format!("lock:{key}"), limit);
    }
}

impl Deref for Site {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}
