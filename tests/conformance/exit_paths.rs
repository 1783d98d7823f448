//! Release on every exit path. A lock that is not released stays held for its TTL of half a minute; the cases
//! expect it to be free at once, or soon where the release continues in the background.

use lock_runtime::{LockError, LockManager, ReleaseMode, distributed_lock};
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;

use super::fixture::Fixture;
use lock_test_support::time::{begin, millis, soon};

/// Reports that its body runs, then never ends.
#[distributed_lock(key = "<key>", manager = locks)]
async fn stay(
    locks: LockManager,
    key: String,
    inside: oneshot::Sender<()>,
) -> Result<(), LockError> {
    let _ = inside.send(());
    pending().await
}

pub async fn panic_in_body_releases_lock(fixture: Fixture) {
    #[distributed_lock(key = "<key>", manager = locks)]
    async fn panics(locks: LockManager, key: String) -> Result<(), LockError> {
        tokio::task::yield_now().await;
        std::panic::panic_any("out of paper")
    }
    let order = fixture.key("order");
    let call = tokio::spawn(panics(fixture.locks().clone(), order.clone()));
    let payload = call.await.unwrap_err().into_panic();
    assert_eq!(payload.downcast_ref(), Some(&"out of paper"));
    fixture.until_free(&order).await;
}

pub async fn run_releases_lock_at_end_and_on_panic(fixture: Fixture) {
    let order = fixture.key("order");
    let run = fixture.locks().lock(&*order);
    let value = run.run(async |lock| lock.key().len()).await;
    assert_eq!(value.unwrap(), order.len());
    assert!(
        !fixture.is_held(&order).await,
        "released before the call ends"
    );

    let lock = fixture.locks().lock(&*order);
    let panics = async move {
        let run = lock.run(async |_| panic!("out of paper"));
        run.await.unwrap_or(())
    };
    assert!(tokio::spawn(panics).await.unwrap_err().is_panic());
    fixture.until_free(&order).await;
}

pub async fn released_or_dropped_guard_frees_lock(fixture: Fixture) {
    let order = fixture.key("order");
    let guard = fixture.locks().lock(&*order).acquire().await.unwrap();
    assert!(fixture.is_held(&order).await);
    guard.release().await.unwrap();
    assert!(!fixture.is_held(&order).await);

    drop(fixture.locks().lock(&*order).acquire().await.unwrap());
    fixture.until_free(&order).await;
}

pub async fn guard_dropped_outside_runtime_frees_lock(fixture: Fixture) {
    let order = fixture.key("order");
    let guard = fixture.locks().lock(&*order).acquire().await.unwrap();
    std::thread::spawn(move || drop(guard)).join().unwrap();
    fixture.until_free(&order).await;
}

pub async fn call_dropped_in_body_frees_lock(fixture: Fixture) {
    let order = fixture.key("order");
    let (inside, entered) = oneshot::channel();
    let task = tokio::spawn(stay(fixture.locks().clone(), order.clone(), inside));
    soon(entered).await.unwrap();
    assert!(fixture.is_held(&order).await);
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    fixture.until_free(&order).await;
}

pub async fn call_dropped_by_select_frees_lock(fixture: Fixture) {
    let order = fixture.key("order");
    let (inside, entered) = oneshot::channel();
    tokio::select! {
        _ = stay(fixture.locks().clone(), order.clone(), inside) => panic!("the body never ends"),
        reported = soon(entered) => reported.unwrap(),
    }
    fixture.until_free(&order).await;
}

pub async fn call_dropped_by_timeout_frees_lock(fixture: Fixture) {
    let order = fixture.key("order");
    // On a starved machine it takes longer until the body runs.
    for n in 1.. {
        let (inside, mut entered) = oneshot::channel();
        let call = stay(fixture.locks().clone(), order.clone(), inside);
        let call = tokio::time::timeout(millis(200) * n, call);
        assert!(call.await.is_err(), "the body never ends");
        fixture.until_free(&order).await;
        if entered.try_recv().is_ok() {
            break;
        }
    }
}

pub async fn call_dropped_while_waiting_never_acquires_lock(fixture: Fixture) {
    let order = fixture.key("order");
    let holder = fixture.other().lock(&*order).acquire().await.unwrap();
    let (inside, mut entered) = oneshot::channel();
    {
        let mut call = Box::pin(stay(fixture.locks().clone(), order.clone(), inside));
        assert!(begin(&mut call).is_pending());
        assert!(tokio::time::timeout(millis(60), &mut call).await.is_err());
    }
    holder.release().await.unwrap();
    fixture.until_free(&order).await;
    assert!(entered.try_recv().is_err(), "its body never ran");
}

/// Checks the locks of a runtime that `end` shuts down.
async fn with_a_runtime_that_ends(fixture: Fixture, holder: Runtime, end: fn(Runtime)) {
    let here = Handle::current();
    let ends = spawn_blocking(move || {
        let (first, second) = (fixture.key("order:1"), fixture.key("order:2"));
        let (inside, entered) = oneshot::channel();
        let _task = holder.spawn(stay(fixture.locks().clone(), first.clone(), inside));
        holder.block_on(soon(entered)).unwrap();
        // A second lock that was acquired on this runtime and outlives it.
        let guard = fixture.locks().lock(&*second).acquire();
        let guard = holder.block_on(guard).unwrap();
        end(holder);
        here.block_on(async {
            fixture.until_free(&first).await;
            assert!(guard.is_valid());
            assert!(fixture.is_held(&second).await);
            soon(guard.release()).await.unwrap();
            assert!(!fixture.is_held(&second).await);
            let again = fixture.locks().lock(&*first).acquire();
            let again = soon(again).await.unwrap();
            again.release().await.unwrap();
        });
    });
    ends.await.unwrap();
}

fn current_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

pub async fn dropped_current_thread_runtime_frees_its_locks(fixture: Fixture) {
    with_a_runtime_that_ends(fixture, current_thread(), drop).await;
}

pub async fn dropped_multi_thread_runtime_frees_its_locks(fixture: Fixture) {
    with_a_runtime_that_ends(fixture, Runtime::new().unwrap(), drop).await;
}

pub async fn runtime_shut_down_in_background_frees_its_locks(fixture: Fixture) {
    with_a_runtime_that_ends(
        fixture,
        Runtime::new().unwrap(),
        Runtime::shutdown_background,
    )
    .await;
}

/// The runtime is idle while the guard is dropped on another thread.
pub async fn guard_of_idle_runtime_frees_lock(fixture: Fixture) {
    let order = fixture.key("order");
    let take = |idle: Runtime| {
        let lock = fixture.locks().lock(&*order);
        spawn_blocking(move || (idle.block_on(lock.acquire()), idle))
    };
    let (guard, idle) = take(current_thread()).await.unwrap();
    drop(guard.unwrap());
    fixture.until_free(&order).await;

    let (guard, idle) = take(idle).await.unwrap();
    soon(guard.unwrap().release()).await.unwrap();
    assert!(!fixture.is_held(&order).await);
    idle.shutdown_background();
}

pub async fn body_is_dropped_before_lock_is_released(fixture: Fixture) {
    struct OnDrop(Arc<AtomicBool>, Fixture, String);
    impl Drop for OnDrop {
        fn drop(&mut self) {
            let look = || current_thread().block_on(self.1.is_held(&self.2));
            // On a separate thread, since this one is inside a runtime.
            let held = std::thread::scope(|scope| scope.spawn(look).join().unwrap());
            self.0.store(held, Relaxed);
        }
    }
    let order = fixture.key("order");
    let held_on_drop = Arc::new(AtomicBool::new(false));
    let dropped = OnDrop(held_on_drop.clone(), fixture.clone(), order.clone());
    let run = fixture.locks().lock(&*order).run(async |_| {
        let _dropped = dropped;
    });
    run.await.unwrap();
    assert!(
        held_on_drop.load(Relaxed),
        "the body's values are dropped while the lock is held"
    );
    assert!(!fixture.is_held(&order).await);
}

/// The next call of the same task is never blocked by the release of the previous one.
pub async fn background_releases_do_not_block_next_call(fixture: Fixture) {
    let order = fixture.key("order");
    for n in 0..200 {
        let lock = fixture
            .locks()
            .lock(&*order)
            .release_mode(ReleaseMode::Background);
        assert_eq!(soon(lock.run(async |_| n)).await.unwrap(), n);
    }
    let guard = fixture.other().lock(&*order).acquire();
    guard.await.unwrap().release().await.unwrap();
}

pub async fn shutdown_rejects_new_locks_and_waits_for_releases(fixture: Fixture) {
    let locks = fixture.another().await;
    let mut guards = Vec::new();
    for n in 0..50 {
        let lock = locks.lock(fixture.key(&n.to_string()));
        guards.push(lock.acquire().await.unwrap());
    }
    drop(guards);
    soon(locks.shutdown()).await;
    for n in 0..50 {
        assert!(
            !fixture.is_held(&fixture.key(&n.to_string())).await,
            "released before the shutdown ends"
        );
    }
    let refused = locks.lock(fixture.key("1")).acquire().await.unwrap_err();
    assert!(
        matches!(refused, LockError::ShuttingDown { .. }),
        "{refused}"
    );
    assert_eq!(refused.key(), Some(&*fixture.key("1")));
}
