//! Locks on a server that the library does not know: a key-value service whose requests fail now and then.
//!
//! ```text
//! cargo run --features full --example own_store
//! ```
//!
//! `Items` stands for the client of such a service. Like Amazon's DynamoDB it puts or deletes an item if a
//! condition holds, and a request can be throttled, or have no reply although it was carried out. `Table`
//! makes a store of it, which is all that locks need. `lock_runtime::testing::check_store` would say whether
//! it is right.

use anyhow::Result;
use lock_runtime::store::{Loaded, Store, StoreError, StoreFuture, Swapped, Version};
use lock_runtime::{Config, LockManager};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::task::JoinSet;

struct Table(Arc<Items>);

impl Store for Table {
    fn load<'a>(&'a self, name: &'a str) -> StoreFuture<'a, Loaded> {
        Box::pin(async move { Ok(loaded(self.0.get(name).await?)) })
    }

    fn swap<'a>(
        &'a self,
        name: &'a str,
        expected: Option<&'a Version>,
        record: Option<&'a [u8]>,
    ) -> StoreFuture<'a, Swapped> {
        Box::pin(async move {
            let condition = match expected {
                Some(version) => Condition::BeginsWith(version.as_bytes()),
                None => Condition::Missing,
            };
            match self.0.write(name, record, condition).await {
                Ok(()) => Ok(Swapped::Done(Version::stamp_of(record.unwrap_or_default()))),
                Err(Failure::Condition) => match self.0.get(name).await {
                    Ok(present) => Ok(Swapped::Conflict(loaded(present))),
                    // Whatever becomes of this look, the write was refused.
                    Err(_) => Err(StoreError::not_done("the record has changed")),
                },
                Err(failure) => Err(failure.into()),
            }
        })
    }

    fn names<'a>(&'a self, prefix: &'a str, most: usize) -> StoreFuture<'a, Vec<String>> {
        Box::pin(async move { Ok(self.0.query(prefix, most).await?) })
    }

    // The client asks for consistent reads.
    fn loads_the_present(&self) -> bool {
        true
    }
}

fn loaded(item: Option<Vec<u8>>) -> Loaded {
    match item {
        Some(record) => {
            let version = Version::stamp_of(&record);
            Loaded::found(record, version)
        }
        None => Loaded::nothing(),
    }
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> StoreError {
        match failure {
            Failure::Throttled => StoreError::not_done("throttled"),
            Failure::NoReply => StoreError::unknown("no reply"),
            Failure::Condition => StoreError::not_done("the condition does not hold"),
        }
    }
}

/// The client of a key-value service.
#[derive(Default)]
struct Items {
    stored: Mutex<BTreeMap<String, Vec<u8>>>,
    requests: AtomicU64,
    fails: AtomicBool,
}

enum Condition<'a> {
    Missing,
    BeginsWith(&'a [u8]),
}

enum Failure {
    /// The condition does not hold.
    Condition,
    Throttled,
    /// It may have been carried out.
    NoReply,
}

impl Items {
    async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, Failure> {
        self.request(|items| Ok(items.get(key).cloned())).await
    }

    /// Puts an item, or deletes it.
    async fn write(
        &self,
        key: &str,
        item: Option<&[u8]>,
        condition: Condition<'_>,
    ) -> Result<(), Failure> {
        let write = |items: &mut BTreeMap<String, Vec<u8>>| {
            let holds = match (items.get(key), condition) {
                (present, Condition::Missing) => present.is_none(),
                (present, Condition::BeginsWith(stamp)) => {
                    present.is_some_and(|item| item.starts_with(stamp))
                }
            };
            match (holds, item) {
                (false, _) => return Err(Failure::Condition),
                (true, Some(item)) => items.insert(key.to_owned(), item.to_vec()),
                (true, None) => items.remove(key),
            };
            Ok(())
        };
        self.request(write).await
    }

    async fn query(&self, prefix: &str, most: usize) -> Result<Vec<String>, Failure> {
        let query = |items: &mut BTreeMap<String, Vec<u8>>| {
            let from = items.range(prefix.to_owned()..);
            let names = from.map(|(name, _)| name.clone());
            let names = names.take_while(|name| name.starts_with(prefix));
            Ok(names.take(most).collect())
        };
        self.request(query).await
    }

    /// Carries a request out. Each seventh one fails, in one of three ways.
    async fn request<T>(
        &self,
        work: impl FnOnce(&mut BTreeMap<String, Vec<u8>>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        tokio::time::sleep(Duration::from_micros(200)).await;
        let number = self.requests.fetch_add(1, SeqCst);
        match number % 21 {
            6 if self.fails.load(SeqCst) => Err(Failure::Throttled),
            13 if self.fails.load(SeqCst) => Err(Failure::NoReply),
            20 if self.fails.load(SeqCst) => {
                let _ = work(&mut self.stored());
                Err(Failure::NoReply)
            }
            _ => work(&mut self.stored()),
        }
    }

    fn stored(&self) -> MutexGuard<'_, BTreeMap<String, Vec<u8>>> {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The tickets that are left: a row that is read, and written a moment later.
struct Tickets(AtomicU64);

/// Sells tickets until none is left. Returns how many.
async fn sell(locks: LockManager, tickets: Arc<Tickets>) -> Result<u64> {
    let mut sold = 0;
    loop {
        let guard = locks.lock("tickets").acquire().await?;
        let left = tickets.0.load(SeqCst);
        if left > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
            tickets.0.store(left - 1, SeqCst);
            sold += 1;
        }
        guard.release().await?;
        if left == 0 {
            locks.shutdown().await;
            return Ok(sold);
        }
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    const TICKETS: u64 = 100;

    let (items, tickets) = (
        Arc::new(Items::default()),
        Arc::new(Tickets(AtomicU64::new(TICKETS))),
    );
    let mut sellers = JoinSet::new();
    for _ in 0..3 {
        let config = Config::store(Table(items.clone())).wait(Duration::from_secs(30));
        sellers.spawn(sell(LockManager::connect(config).await?, tickets.clone()));
    }
    items.fails.store(true, SeqCst);
    let mut sold = 0;
    while let Some(seller) = sellers.join_next().await {
        let count = seller??;
        println!("a seller has sold {count}");
        sold += count;
    }
    let requests = items.requests.load(SeqCst);
    println!(
        "{sold} of {TICKETS} tickets are sold, by {requests} requests, of which each seventh failed"
    );
    Ok(())
}
