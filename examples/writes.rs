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
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Stands for a database: each method is one statement, which checks and writes.
struct Database(Mutex<Tables>);

struct Tables {
    account: Account,
    /// The orders that were shipped, and the token of each.
    shipments: BTreeMap<i64, u64>,
}

#[derive(Clone, Copy)]
struct Account {
    balance: i64,
    version: i64,
    token: u64,
}

impl Database {
    fn open() -> Database {
        let account = Account {
            balance: 100,
            version: 1,
            token: 0,
        };
        let shipments = BTreeMap::new();
        Database(Mutex::new(Tables { account, shipments }))
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self) -> (i64, i64) {
        let account = self.tables().account;
        (account.balance, account.version)
    }

    /// Writes if `accepts` finds the row as it has to be. Returns `false` if not.
    fn write(&self, balance: i64, token: Option<u64>, accepts: impl Fn(&Account) -> bool) -> bool {
        let account = &mut self.tables().account;
        let accepted = accepts(account);
        if accepted {
            account.balance = balance;
            account.version += 1;
            account.token = token.unwrap_or(account.token);
        }
        accepted
    }

    /// The lock avoids work in vain, and the token makes the write safe.
    fn write_fenced(&self, balance: i64, token: u64) -> bool {
        self.write(balance, Some(token), |row| row.token <= token)
    }

    /// Safe without a lock; with one there are no retries.
    fn write_version(&self, balance: i64, seen: i64) -> bool {
        self.write(balance, None, |row| row.version == seen)
    }

    /// The lock keeps the version from changing, and the version is checked nevertheless.
    fn write_both(&self, balance: i64, seen: i64, token: u64) -> bool {
        let accepts = |row: &Account| row.version == seen && row.token <= token;
        self.write(balance, Some(token), accepts)
    }

    /// The order is the key of what must happen once.
    fn ship_once(&self, order: i64, token: u64) -> bool {
        let shipments = &mut self.tables().shipments;
        let is_first = !shipments.contains_key(&order);
        shipments.entry(order).or_insert(token);
        is_first
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
    let (balance, version) = database.read();
    // A paused process notices nothing.
    thread::sleep(paused);
    Ok(match way {
        Way::Fenced => database.write_fenced(balance - 1, token),
        Way::Version => database.write_version(balance - 1, version),
        Way::Both => database.write_both(balance - 1, version, token),
        Way::Once => database.ship_once(42, token),
    })
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
        let database = std::sync::Arc::new(Database::open());
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
