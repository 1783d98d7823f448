//! What the library keeps in its schema, for the default prefix.

use std::time::Duration;

use tokio_postgres::{Client, NoTls};

use super::{Postgres, url_at};
use crate::time::eventually;

/// The schema in which the library keeps locks, unless a URL names another.
const SCHEMA: &str = "distributed_lock";

impl Postgres {
    /// Returns the locks that are held, and the claims that wait. A lease that has ended is no lock: the next
    /// caller takes its row over.
    pub fn leftovers(&self) -> Vec<String> {
        if !self.has_schema() {
            return Vec::new();
        }
        let left = format!(
            "SELECT name FROM {SCHEMA}.held WHERE expires_at > clock_timestamp()
             UNION ALL SELECT 'queue of ' || name FROM {SCHEMA}.waiting WHERE alive_until > clock_timestamp()"
        );
        self.rows(&left).concat()
    }

    fn has_schema(&self) -> bool {
        self.query::<String>(&format!("SELECT to_regclass('{SCHEMA}.held') IS NOT NULL")) == "t"
    }

    pub fn is_held(&self, key: &str) -> bool {
        let held = format!(
            "SELECT count(*) FROM {SCHEMA}.held
             WHERE name = 'lock:{key}' AND expires_at > clock_timestamp()"
        );
        self.query::<usize>(&held) > 0
    }

    #[track_caller]
    pub fn until_gone(&self, key: &str) {
        eventually(&format!("`{key}` is free"), || !self.is_held(key));
    }

    /// Returns the number of processes in the queue of a lock.
    pub fn waiting(&self, key: &str) -> usize {
        self.query(&format!(
            "SELECT count(*) FROM {SCHEMA}.waiting WHERE name = 'lock:{key}'"
        ))
    }

    /// Waits until `processes` processes are in the queue of a lock.
    #[track_caller]
    pub fn until_waiting(&self, key: &str, processes: usize) {
        let what = format!("{processes} wait for `{key}`");
        eventually(&what, || self.waiting(key) == processes);
    }

    /// Deletes a lock, as an operator would.
    pub fn delete_lock(&self, key: &str) {
        self.execute(&format!(
            "DELETE FROM {SCHEMA}.held WHERE name = 'lock:{key}'"
        ));
    }

    /// Ends the lease of a lock, as time does.
    pub fn end_lease(&self, key: &str) {
        self.execute(&format!(
            "UPDATE {SCHEMA}.held SET expires_at = clock_timestamp() WHERE name = 'lock:{key}'"
        ));
    }

    /// Gives a held lock to a holder that is no client of the library.
    pub fn steal(&self, key: &str, ttl: Duration) {
        self.execute(&format!(
            "UPDATE {SCHEMA}.held SET token = 'thief', fence = nextval('{SCHEMA}.fence'),
                expires_at = clock_timestamp() + interval '{} ms' WHERE name = 'lock:{key}'",
            ttl.as_millis()
        ));
    }

    /// Returns how many transactions clients have committed, also those over the unix socket.
    pub fn transactions(&self) -> usize {
        // A backend reports its numbers when it has been idle for a second, or when it ends.
        let sum = "SELECT xact_commit FROM pg_stat_database WHERE datname = 'postgres'";
        self.query(sum)
    }

    /// Opens a snapshot, which keeps the server from removing dead rows until the client is dropped.
    pub async fn open_snapshot(&self) -> Client {
        let client = self.client().await;
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1";
        client.batch_execute(begin).await.unwrap();
        client
    }

    /// Connects as any program does, on the caller's runtime.
    pub async fn client(&self) -> Client {
        let (client, connection) = tokio_postgres::connect(&url_at(self.server_port()), NoTls)
            .await
            .unwrap();
        tokio::spawn(connection);
        client
    }
}
