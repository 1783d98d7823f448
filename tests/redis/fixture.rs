//! A Redis server, and a manager connected to it.

use std::ops::Deref;

use lock_runtime::LockManager;

use lock_test_support::manager::{connected, silent};
use lock_test_support::server::Server;
use lock_test_support::time::patient;

/// Fields drop in order: first the manager, then the server, which checks for leftovers.
pub struct Fixture {
    locks: LockManager,
    server: Server,
}

impl Fixture {
    pub async fn start() -> Self {
        let server = Server::start();
        let locks = connected(silent(patient(server.url()))).await;
        Self { locks, server }
    }

    pub fn locks(&self) -> &LockManager {
        &self.locks
    }
}

impl Deref for Fixture {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}
