//! Release on every exit path. A key that was not released would be held for the whole ttl
//! of half a minute; the tests look for it at once, or for a second where the release goes on
//! in the background.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use lock_runtime::{LockError, LockManager, distributed_lock};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

use crate::Site;
use crate::time::{NOISE, begin, millis, within};

const SOON: std::time::Duration = millis(1000);

#[derive(Debug, PartialEq)]
enum Failure {
    OutOfStock,
    Lock(String),
}

impl From<LockError> for Failure {
    fn from(error: LockError) -> Self {
        Self::Lock(error.to_string())
    }
}

#[derive(Clone, Copy)]
enum Way {
    End,
    Return,
    Question,
    Panic,
}

#[distributed_lock(key = "order:<id>", manager = locks)]
async fn ship(locks: &LockManager, id: u32, way: Way) -> Result<u32, Failure> {
    tokio::task::yield_now().await;
    match way {
        Way::End => {}
        Way::Return => return Ok(id + 1),
        Way::Question => Err(Failure::OutOfStock)?,
        Way::Panic => panic!("out of paper"),
    }
    Ok(id)
}

/// Tells when its body runs, then never ends.
#[distributed_lock(key = "order:<id>", manager = locks)]
async fn stay(locks: &LockManager, id: u32, inside: oneshot::Sender<()>) -> Result<(), LockError> {
    let _ = inside.send(());
    pending().await
}

#[tokio::test]
async fn when_the_body_ends() {
    let site = Site::start().await;
    assert_eq!(ship(site.locks(), 1, Way::End).await, Ok(1));
    assert!(!site.is_held("order:1"), "released before the call ends");
}

#[tokio::test]
async fn when_the_body_returns_early() {
    let site = Site::start().await;
    assert_eq!(ship(site.locks(), 1, Way::Return).await, Ok(2));
    assert!(!site.is_held("order:1"), "released before the call ends");
}

#[tokio::test]
async fn when_the_body_fails_with_a_question_mark() {
    let site = Site::start().await;
    assert_eq!(
        ship(site.locks(), 1, Way::Question).await,
        Err(Failure::OutOfStock)
    );
    assert!(!site.is_held("order:1"), "released before the call ends");
}

#[tokio::test]
async fn when_the_body_panics_and_the_panic_goes_on() {
    let site = Site::start().await;
    let locks = site.locks().clone();
    let panicked = tokio::spawn(async move { ship(&locks, 1, Way::Panic).await }).await;
    let payload = panicked.unwrap_err().into_panic();
    assert_eq!(payload.downcast_ref(), Some(&"out of paper"));
    site.until_free("order:1", SOON);
}

#[tokio::test]
async fn when_run_ends_and_when_it_panics() {
    let site = Site::start().await;
    let value = site
        .locks()
        .lock("order:1")
        .run(async |lock| lock.key().len())
        .await;
    assert_eq!(value.unwrap(), 7);
    assert!(!site.is_held("order:1"), "released before the call ends");

    let locks = site.locks().clone();
    let panics = async move {
        let run = locks.lock("order:1").run(async |_| panic!("out of paper"));
        run.await.unwrap_or(())
    };
    assert!(tokio::spawn(panics).await.unwrap_err().is_panic());
    site.until_free("order:1", SOON);
}

#[tokio::test]
async fn when_a_guard_is_released_or_dropped() {
    let site = Site::start().await;
    let guard = site.locks().lock("order:1").acquire().await.unwrap();
    assert!(site.is_held("order:1"));
    guard.release().await.unwrap();
    assert!(!site.is_held("order:1"));

    drop(site.locks().lock("order:1").acquire().await.unwrap());
    site.until_free("order:1", SOON);
}

#[tokio::test]
async fn when_a_guard_is_dropped_outside_any_runtime() {
    let site = Site::start().await;
    let guard = site.locks().lock("order:1").acquire().await.unwrap();
    std::thread::spawn(move || drop(guard)).join().unwrap();
    site.until_free("order:1", SOON);
}

#[tokio::test]
async fn when_the_call_is_dropped_while_its_body_runs() {
    let site = Site::start().await;
    let (inside, entered) = oneshot::channel();
    let locks = site.locks().clone();
    let task = tokio::spawn(async move { stay(&locks, 1, inside).await });
    within(NOISE, entered).await.unwrap();
    assert!(site.is_held("order:1"));
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    site.until_free("order:1", SOON);
}

#[tokio::test]
async fn when_select_drops_the_call() {
    let site = Site::start().await;
    let (inside, entered) = oneshot::channel();
    tokio::select! {
        _ = stay(site.locks(), 1, inside) => panic!("the body never ends"),
        told = within(NOISE, entered) => told.unwrap(),
    }
    site.until_free("order:1", SOON);
}

#[tokio::test]
async fn when_a_timeout_drops_the_call() {
    let site = Site::start().await;
    let (inside, mut entered) = oneshot::channel();
    let call = tokio::time::timeout(NOISE, stay(site.locks(), 1, inside));
    assert!(call.await.is_err(), "the body never ends");
    entered.try_recv().expect("the body ran");
    site.until_free("order:1", SOON);
}

#[tokio::test]
async fn a_call_dropped_while_it_waits_never_has_the_lock() {
    let site = Site::start().await;
    let other = site.another().await;
    let holder = other.lock("order:1").acquire().await.unwrap();
    let (inside, mut entered) = oneshot::channel();
    {
        let mut call = Box::pin(stay(site.locks(), 1, inside));
        assert!(begin(&mut call).is_pending());
        assert!(tokio::time::timeout(millis(60), &mut call).await.is_err());
    }
    holder.release().await.unwrap();
    site.locks().shutdown().await;
    assert!(!site.is_held("order:1"));
    assert!(entered.try_recv().is_err(), "its body never ran");
}

/// `end` makes away with the runtime that holds the lock.
fn with_a_runtime_that_ends(holder: Runtime, end: impl FnOnce(Runtime)) {
    let outside = Builder::new_current_thread().enable_all().build().unwrap();
    let site = outside.block_on(Site::start());
    let locks = site.locks().clone();
    let (inside, entered) = oneshot::channel();
    let _task = holder.spawn(async move { stay(&locks, 1, inside).await });
    holder.block_on(within(NOISE, entered)).unwrap();
    // One more that was taken there and lives longer than its runtime.
    let guard = holder
        .block_on(site.locks().lock("order:2").acquire())
        .unwrap();
    end(holder);
    site.until_free("order:1", SOON);

    assert!(guard.is_valid());
    assert!(site.is_held("order:2"));
    outside.block_on(within(NOISE, guard.release())).unwrap();
    assert!(!site.is_held("order:2"));
    assert_eq!(
        outside.block_on(within(NOISE, ship(site.locks(), 3, Way::End))),
        Ok(3)
    );
}

#[test]
fn when_a_current_thread_runtime_is_dropped() {
    with_a_runtime_that_ends(
        Builder::new_current_thread().enable_all().build().unwrap(),
        drop,
    );
}

#[test]
fn when_a_multi_thread_runtime_is_dropped() {
    with_a_runtime_that_ends(Runtime::new().unwrap(), drop);
}

#[test]
fn when_a_runtime_is_shut_down_in_the_background() {
    with_a_runtime_that_ends(Runtime::new().unwrap(), Runtime::shutdown_background);
}

/// The runtime stands still with the guard in it: dropping happens on another thread.
#[test]
fn when_the_runtime_that_took_the_lock_is_never_polled_again() {
    let idle = Builder::new_current_thread().enable_all().build().unwrap();
    let outside = Runtime::new().unwrap();
    let site = outside.block_on(Site::start());
    let guard = idle
        .block_on(site.locks().lock("order:1").acquire())
        .unwrap();
    drop(guard);
    site.until_free("order:1", SOON);
    let guard = idle
        .block_on(site.locks().lock("order:1").acquire())
        .unwrap();
    outside.block_on(within(NOISE, guard.release())).unwrap();
    assert!(!site.is_held("order:1"));
    drop(idle);
}

#[tokio::test]
async fn the_body_is_dropped_before_the_lock_is_released() {
    struct OnDrop(Arc<AtomicBool>, Arc<dyn Fn() -> bool + Send + Sync>);
    impl Drop for OnDrop {
        fn drop(&mut self) {
            self.0.store((self.1)(), Relaxed);
        }
    }
    let site = Arc::new(Site::start().await);
    let held_on_drop = Arc::new(AtomicBool::new(false));
    let look = site.clone();
    let dropped = OnDrop(
        held_on_drop.clone(),
        Arc::new(move || look.is_held("order:1")),
    );
    let run = site.locks().lock("order:1").run(async |_| {
        let _dropped = dropped;
    });
    run.await.unwrap();
    assert!(
        held_on_drop.load(Relaxed),
        "what the body owns goes while the lock is held"
    );
    assert!(!site.is_held("order:1"));
}

#[tokio::test]
async fn shutdown_refuses_new_locks_and_waits_for_the_releases() {
    let site = Site::start().await;
    let mut guards = Vec::new();
    for id in 0..50 {
        guards.push(
            site.locks()
                .lock(format!("order:{id}"))
                .acquire()
                .await
                .unwrap(),
        );
    }
    drop(guards);
    within(SOON, site.locks().shutdown()).await;
    for id in 0..50 {
        assert!(
            !site.is_held(&format!("order:{id}")),
            "released before the shutdown ends"
        );
    }
    let refused = site.locks().lock("order:1").acquire().await.unwrap_err();
    assert!(
        matches!(refused, LockError::ShuttingDown { .. }),
        "{refused}"
    );
    assert_eq!(refused.key(), Some("order:1"));
}
