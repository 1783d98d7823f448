//! A PostgreSQL server, and a manager connected to it.

use std::ops::Deref;

use lock_runtime::{LockGuard, LockManager, TransactionProof};
use tokio_postgres::Transaction;

use lock_test_support::manager::connected;
use lock_test_support::postgres::Postgres;
use lock_test_support::time::patient;

/// Fields drop in order: first the manager, then the server, which checks for leftovers.
pub struct Fixture {
    locks: LockManager,
    server: Postgres,
}

impl Fixture {
    pub async fn start() -> Self {
        let server = Postgres::start();
        let locks = connected(patient(server.url())).await;
        Self { locks, server }
    }

    pub fn locks(&self) -> &LockManager {
        &self.locks
    }
}

impl Deref for Fixture {
    type Target = Postgres;

    fn deref(&self) -> &Postgres {
        &self.server
    }
}

/// Checks the guard's locks in a transaction.
pub async fn ensure(
    transaction: &Transaction<'_>,
    guard: &LockGuard,
) -> Result<(), tokio_postgres::Error> {
    run(transaction, &guard.transaction_proof().await.unwrap()).await
}

pub async fn run(
    transaction: &Transaction<'_>,
    ensure: &TransactionProof,
) -> Result<(), tokio_postgres::Error> {
    let (names, numbers) = (ensure.names(), ensure.numbers());
    transaction
        .execute(ensure.statement(), &[&names, &numbers])
        .await
        .map(drop)
}
