//! Work that a body gives to other tasks and threads: the body's cancellation and its lock end there.

use std::sync::mpsc;
use std::time::Duration;

use lock_runtime::{LockError, LockManager, distributed_lock};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

/// Sends when it is dropped.
struct Dropped(Option<oneshot::Sender<()>>);

impl Drop for Dropped {
    fn drop(&mut self) {
        let _ = self.0.take().map(|sender| sender.send(()));
    }
}

/// Spawns a task that ends once it is told to, and hangs.
#[distributed_lock(key = "spawned", max_hold = "50ms", manager = locks)]
async fn spawns(
    locks: &LockManager,
    go_on: oneshot::Receiver<()>,
    done: oneshot::Sender<()>,
) -> Result<(), LockError> {
    tokio::spawn(async move {
        let _ = go_on.await;
        let _ = done.send(());
    });
    std::future::pending().await
}

#[distributed_lock(key = "joined", max_hold = "50ms", manager = locks)]
async fn joins(locks: &LockManager, dropped: Dropped) -> Result<(), LockError> {
    let mut parts = JoinSet::new();
    parts.spawn(async move {
        let _dropped = dropped;
        std::future::pending::<()>().await;
    });
    while parts.join_next().await.is_some() {}
    Ok(())
}

#[tokio::test]
async fn spawned_task_continues_without_the_lock_after_its_body_was_canceled() {
    let locks = LockManager::connect("memory://").await.unwrap();
    let (go_on, told) = oneshot::channel();
    let (done, ended) = oneshot::channel();
    assert!(spawns(&locks, told, done).await.unwrap_err().is_lost());
    let _other = locks.lock("spawned").acquire().await.unwrap();
    go_on.send(()).unwrap();
    ended.await.unwrap();
}

#[tokio::test]
async fn tasks_of_a_join_set_are_aborted_with_the_body() {
    let locks = LockManager::connect("memory://").await.unwrap();
    let (dropped, told) = oneshot::channel();
    let lost = joins(&locks, Dropped(Some(dropped))).await;
    assert!(lost.unwrap_err().is_lost());
    told.await.unwrap();
}

#[tokio::test]
async fn guard_in_a_blocking_closure_keeps_the_lock_until_it_returns() {
    let locks = LockManager::connect("memory://").await.unwrap();
    let guard = locks.lock("blocking").acquire().await.unwrap();
    let (go_on, told) = mpsc::channel::<()>();
    let work = tokio::task::spawn_blocking(move || {
        let _guard = guard;
        let _ = told.recv();
    });
    assert!(
        locks
            .lock("blocking")
            .try_acquire()
            .await
            .unwrap()
            .is_none()
    );
    go_on.send(()).unwrap();
    work.await.unwrap();
    let next = locks.lock("blocking").wait(Duration::from_secs(20));
    drop(next.acquire().await.unwrap());
}
