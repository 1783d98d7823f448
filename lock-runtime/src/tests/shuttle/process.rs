//! A process that acquires locks.

use crate::api::guard::LockGuard;
use crate::api::lock::Lock;
use crate::api::manager::LockManager;
use crate::error::LockError;
use crate::tests::shuttle::checked_guard::CheckedGuard;
use crate::tests::shuttle::explore::{coin_flip, with_turn_limit};
use crate::tests::shuttle::grant_log::{GrantLog, TTL};
use shuttle::future::{JoinHandle, spawn};
use std::sync::Arc;
use std::time::Duration;

pub(super) struct Process {
    pub(super) locks: LockManager,
    log: Arc<GrantLog>,
}

impl Process {
    pub(super) fn new(locks: LockManager, log: Arc<GrantLog>) -> Process {
        Process { locks, log }
    }

    pub(super) async fn take(&self, key: &str) -> Result<CheckedGuard, LockError> {
        self.take_for(key, TTL).await
    }

    pub(super) async fn take_for(
        &self,
        key: &str,
        ttl: Duration,
    ) -> Result<CheckedGuard, LockError> {
        let lock = self.locks.lock(key).ttl(ttl).wait(Duration::MAX);
        Ok(self.holding(lock.acquire().await?))
    }

    /// Wraps a guard in one that checks it.
    pub(super) fn holding(&self, guard: LockGuard) -> CheckedGuard {
        CheckedGuard::new(guard, self.locks.inner.queues.clone(), self.log.clone())
    }

    /// Spawns a task that acquires the lock, works, and drops or releases the guard.
    pub(super) fn spawn_holder(self: &Arc<Self>, key: &'static str) -> JoinHandle<()> {
        self.spawn_holder_for(key, TTL)
    }

    /// Spawns the same task with another ttl.
    pub(super) fn spawn_holder_for(
        self: &Arc<Self>,
        key: &'static str,
        ttl: Duration,
    ) -> JoinHandle<()> {
        let process = self.clone();
        spawn(async move {
            let held = process.take_for(key, ttl).await.unwrap();
            held.work().await;
            if coin_flip() {
                held.end();
            } else if let Err(error) = held.unwatched().release().await {
                assert!(error.is_lost(), "{error}");
            }
        })
    }

    /// Spawns a task that gives up after at most `most` turns.
    pub(super) fn spawn_quitter(
        self: &Arc<Self>,
        key: &'static str,
        most: usize,
    ) -> JoinHandle<()> {
        let process = self.clone();
        spawn(async move {
            if let Some(held) = with_turn_limit(most, process.take(key)).await {
                held.unwrap().end();
            }
        })
    }

    /// Acquires the lock with the options that `change` sets.
    pub(super) async fn take_with(&self, key: &str, change: fn(Lock) -> Lock) -> CheckedGuard {
        let lock = self.locks.lock(key).ttl(TTL).wait(Duration::MAX);
        self.holding(change(lock).acquire().await.unwrap())
    }

    /// Spawns a task that acquires the lock with these options, works, and drops or releases the guard.
    pub(super) fn spawn_holder_with(
        self: &Arc<Self>,
        key: &'static str,
        change: fn(Lock) -> Lock,
    ) -> JoinHandle<()> {
        let process = self.clone();
        spawn(async move {
            let held = process.take_with(key, change).await;
            held.work().await;
            if coin_flip() {
                held.end();
            } else if let Err(error) = held.unwatched().release().await {
                assert!(error.is_lost(), "{error}");
            }
        })
    }

    /// Spawns a task that gives up acquiring the lock with these options after at most `most` turns.
    pub(super) fn spawn_quitter_with(
        self: &Arc<Self>,
        key: &'static str,
        most: usize,
        change: fn(Lock) -> Lock,
    ) -> JoinHandle<()> {
        let process = self.clone();
        spawn(async move {
            if let Some(held) = with_turn_limit(most, process.take_with(key, change)).await {
                held.end();
            }
        })
    }

    /// Waits until no background task runs.
    pub(super) async fn wait_idle(&self) {
        self.locks.inner.context.tasks.wait_idle().await;
    }

    /// Shuts down, and checks that nothing is left.
    pub(super) async fn end(self: Arc<Self>) {
        self.locks.shutdown().await;
        let inner = &self.locks.inner;
        assert!(inner.context.tasks.is_idle(), "a task still runs");
        assert!(inner.queues.are_all_gone(), "a local queue is left");
        assert!(inner.claims.is_empty(), "a claim is still registered");
        assert!(inner.shared.watchdog.is_idle(), "a hold is still scheduled");
    }
}
