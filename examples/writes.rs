//! Four ways to write to a database that stay correct when a holder is late: by the fencing token, by a
//! version, by both, and with an effect that happens once.
//!
//! ```text
//! cargo run --features full --example writes
//! ```
//!
//! In each of them, a first holder is paused for longer than its lease before it writes, and a second
//! one writes meanwhile.

use anyhow::{Result, ensure};
use lock_runtime::{Config, LockGuard, distributed_lock};
use rusqlite::Connection;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

struct Database(Mutex<Connection>);

impl Database {
    fn open() -> Result<Database> {
        let connection = Connection::open_in_memory()?;
        connection.execute_batch(
            "CREATE TABLE account (balance INTEGER, version INTEGER, token INTEGER);
             INSERT INTO account VALUES (100, 1, 0);
             CREATE TABLE shipment (order_id INTEGER PRIMARY KEY, token INTEGER);",
        )?;
        Ok(Database(Mutex::new(connection)))
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self) -> Result<(i64, i64)> {
        let select = "SELECT balance, version FROM account";
        let row = |row: &rusqlite::Row| Ok((row.get(0)?, row.get(1)?));
        Ok(self.connection().query_row(select, (), row)?)
    }

    /// The lock avoids work in vain, and the token makes the write safe.
    fn write_fenced(&self, balance: i64, token: u64) -> Result<bool> {
        let update =
            "UPDATE account SET balance = ?1, version = version + 1, token = ?2 WHERE token <= ?2";
        let rows = self
            .connection()
            .execute(update, (balance, i64::try_from(token)?))?;
        Ok(rows == 1)
    }

    /// Safe without a lock; with one there are no retries.
    fn write_version(&self, balance: i64, seen: i64) -> Result<bool> {
        let update = "UPDATE account SET balance = ?1, version = version + 1 WHERE version = ?2";
        Ok(self.connection().execute(update, (balance, seen))? == 1)
    }

    /// The lock keeps the version from changing, and the version is checked nevertheless.
    fn write_both(&self, balance: i64, seen: i64, token: u64) -> Result<bool> {
        let update = "UPDATE account SET balance = ?1, version = version + 1, token = ?3 \
                      WHERE version = ?2 AND token <= ?3";
        let token = i64::try_from(token)?;
        Ok(self.connection().execute(update, (balance, seen, token))? == 1)
    }

    /// The order is the key of what must happen once.
    fn ship_once(&self, order: i64, token: u64) -> Result<bool> {
        let insert = "INSERT INTO shipment VALUES (?1, ?2) ON CONFLICT (order_id) DO NOTHING";
        let rows = self
            .connection()
            .execute(insert, (order, i64::try_from(token)?))?;
        Ok(rows == 1)
    }
}

#[derive(Clone, Copy, Debug)]
enum Way {
    Fenced,
    Version,
    Both,
    Once,
}

async fn write(database: &Database, way: Way, lock: &LockGuard, paused: Duration) -> Result<bool> {
    let token = lock.fencing_token().await?;
    let (balance, version) = database.read()?;
    // A paused process notices nothing.
    thread::sleep(paused);
    match way {
        Way::Fenced => database.write_fenced(balance - 1, token),
        Way::Version => database.write_version(balance - 1, version),
        Way::Both => database.write_both(balance - 1, version, token),
        Way::Once => database.ship_once(42, token),
    }
}

/// The options simulate a paused process: it neither renews its lock nor notices the loss.
#[distributed_lock(
    key = "account",
    ttl = "200ms",
    renew = false,
    on_lost = "continue",
    guard = lock
)]
async fn write_late(database: &Database, way: Way) -> Result<bool> {
    write(database, way, lock, Duration::from_millis(500)).await
}

#[distributed_lock(key = "account", wait = "5s", guard = lock)]
async fn write_in_time(database: &Database, way: Way) -> Result<bool> {
    write(database, way, lock, Duration::ZERO).await
}

#[tokio::main]
async fn main() -> Result<()> {
    lock_runtime::init(Config::new("memory://")).await?;
    for way in [Way::Fenced, Way::Version, Way::Both, Way::Once] {
        let database = std::sync::Arc::new(Database::open()?);
        let late = tokio::spawn({
            let database = database.clone();
            async move { write_late(&database, way).await }
        });
        tokio::time::sleep(Duration::from_millis(100)).await;
        let in_time = write_in_time(&database, way).await?;
        let late = late.await??;
        println!("{way:?}: the second holder's write is accepted: {in_time}, the late one: {late}");
        ensure!(in_time && !late, "a late write was accepted");
    }
    lock_runtime::shutdown().await;
    Ok(())
}
