//! The resource that a lock protects: a row in SQLite, shared by processes.

use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;

pub struct Database(Connection);

impl Database {
    pub fn create(path: &Path) -> Self {
        let database = Self::open(path);
        let counter = "CREATE TABLE counter (value INTEGER NOT NULL, fence INTEGER NOT NULL);
                       INSERT INTO counter VALUES (0, 0);";
        database.0.execute_batch(counter).unwrap();
        database
    }

    pub fn open(path: &Path) -> Self {
        let connection = Connection::open(path).unwrap();
        connection.busy_timeout(Duration::from_secs(30)).unwrap();
        connection
            .execute_batch("PRAGMA synchronous = OFF")
            .unwrap();
        Self(connection)
    }

    pub fn value(&self) -> i64 {
        self.0
            .query_row("SELECT value FROM counter", (), |row| row.get(0))
            .unwrap()
    }

    pub fn set(&self, value: i64) {
        assert!(self.set_fenced(value, 0));
    }

    /// Writes the value. Returns `false` if a write with a greater token came before.
    pub fn set_fenced(&self, value: i64, fence: u64) -> bool {
        let update = "UPDATE counter SET value = ?1, fence = ?2 WHERE fence <= ?2";
        let fence = i64::try_from(fence).unwrap();
        self.0.execute(update, (value, fence)).unwrap() == 1
    }
}
