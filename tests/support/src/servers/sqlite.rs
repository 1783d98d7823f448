//! A file of SQLite.

use std::path::PathBuf;
use std::time::Duration;

use rusqlite::{Connection, Params};
use rustix::time::{ClockId, clock_gettime};
use tempfile::TempDir;

use super::Servers;
use super::records::{leases, of_a_thief};
use crate::server::temporary;
use crate::time::comes_true;
use crate::worker::Worker;

/// A file in a folder of its own, which is used by the library, and by the test as a foreign client.
pub struct Sqlite {
    folder: TempDir,
    /// Whether locks may be left at the end.
    pub leaves_locks: bool,
}

impl Sqlite {
    pub fn start() -> Self {
        Self {
            folder: temporary("lock-sqlite-"),
            leaves_locks: false,
        }
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("locks.db")
    }

    pub fn url(&self) -> String {
        format!("sqlite://{}", self.path().display())
    }

    /// Connects as another program does that knows the tables.
    #[track_caller]
    pub fn client(&self) -> Connection {
        let client = Connection::open(self.path()).unwrap();
        client.busy_timeout(Duration::from_secs(20)).unwrap();
        client
    }

    /// Executes a statement. Returns the number of rows that it has changed.
    #[track_caller]
    pub fn execute(&self, statement: &str, values: impl Params) -> usize {
        self.client().execute(statement, values).unwrap()
    }

    /// Returns the time by the clock of the file.
    fn time(&self) -> u64 {
        let began = "SELECT began FROM boot";
        let began: i64 = self
            .client()
            .query_row(began, (), |row| row.get(0))
            .unwrap();
        let boot = clock_gettime(ClockId::Boottime);
        began as u64 + boot.tv_sec as u64 * 1_000_000 + boot.tv_nsec as u64 / 1000
    }
}

impl Servers for Sqlite {
    fn urls_at(&self, _: &[u16]) -> Vec<String> {
        Vec::new()
    }

    fn urls(&self) -> Vec<String> {
        vec![self.url()]
    }

    /// While it writes, no other process can.
    fn stop(&self, worker: &Worker) {
        let client = self.client();
        client.execute_batch("BEGIN IMMEDIATE").unwrap();
        worker.pause();
        client.execute_batch("COMMIT").unwrap();
    }

    fn delete(&self, key: &str) {
        let delete = "DELETE FROM lock WHERE name = 'lock:' || ?1";
        self.execute(delete, [key]);
    }

    fn steal(&self, key: &str) {
        let steal = "UPDATE lock SET record = ?2 WHERE name = 'lock:' || ?1";
        self.execute(steal, (key, of_a_thief()));
    }

    /// What processes have left that were killed ends with the leases.
    fn leftovers(&self) -> Vec<String> {
        let (client, now) = (self.client(), self.time());
        let locks = "SELECT name, record FROM lock WHERE name NOT LIKE 'lock:::%'";
        let mut locks = client.prepare(locks).unwrap();
        let locks = locks.query_map((), |row| Ok((row.get(0)?, row.get(1)?)));
        let locks = locks.unwrap().map(Result::unwrap);
        let is_held = |(_, record): &(String, Vec<u8>)| leases(record).any(|until| until > now);
        locks.filter(is_held).map(|(name, _)| name).collect()
    }

    fn clear(&mut self, _: usize) {
        self.leaves_locks = true;
    }
}

impl Drop for Sqlite {
    fn drop(&mut self) {
        if self.leaves_locks || std::thread::panicking() || !self.path().exists() {
            return;
        }
        let mut left = Vec::new();
        let is_clean = comes_true(|| {
            left = self.leftovers();
            left.is_empty()
        });
        assert!(is_clean, "locks are left: {left:?}");
    }
}
