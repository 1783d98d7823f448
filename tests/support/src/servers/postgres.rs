//! PostgreSQL.

use super::Servers;
use crate::clocks::Clocks;
use crate::pgbouncer::PgBouncer;
use crate::postgres::{Postgres, url_at};
use crate::time::millis;

/// A server, which may have a pooler in front of it.
pub struct Pooled {
    pub pooler: Option<PgBouncer>,
    pub server: Postgres,
}

impl From<Postgres> for Pooled {
    fn from(server: Postgres) -> Self {
        let pooler = None;
        Self { pooler, server }
    }
}

impl Pooled {
    /// Starts a pooler in front of the server.
    pub fn behind_pooler(server: Postgres) -> Self {
        let pooler = Some(PgBouncer::to(server.port()));
        Self { pooler, server }
    }
}

impl Servers for Pooled {
    fn urls_at(&self, ports: &[u16]) -> Vec<String> {
        ports.iter().copied().map(url_at).collect()
    }

    fn ports(&self) -> Vec<u16> {
        let port = self.pooler.as_ref().map(PgBouncer::port);
        vec![port.unwrap_or(self.server.port())]
    }

    fn pause(&mut self, _: usize) {
        self.server.pause();
    }

    fn resume(&mut self, _: usize) {
        self.server.resume();
    }

    fn kill(&mut self, _: usize) {
        self.server.kill();
    }

    fn restart(&mut self, _: usize) {
        self.server.restart();
    }

    /// The pooler keeps connections of its own.
    fn clients(&self, _: usize) -> Vec<String> {
        match self.pooler {
            Some(_) => Vec::new(),
            None => self.server.clients(),
        }
    }

    fn clocks(&self, _: usize) -> Option<&Clocks> {
        self.server.clocks()
    }

    fn delete(&self, key: &str) {
        self.server.delete_lock(key);
    }

    fn steal(&self, key: &str) {
        self.server.steal(key, millis(60_000));
    }

    fn leftovers(&self) -> Vec<String> {
        self.server.leftovers()
    }

    fn clear(&mut self, _: usize) {
        self.server.leave_locks();
    }
}
