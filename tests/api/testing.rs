//! `testing::Locks`: failures on demand, and a manager that takes the place of the global one.

use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use lock_runtime::testing::{Fault, Locks};
use lock_runtime::{Config, LockError, LockManager, LostCause, distributed_lock};
use tokio::time::{Instant, sleep};

const SECOND: Duration = Duration::from_secs(1);

#[distributed_lock(key = "row:<id>", wait = "0s")]
async fn call(id: u32) -> Result<u32, LockError> {
    tokio::task::yield_now().await;
    Ok(id)
}

fn is_default(locks: &LockManager) -> bool {
    let default = lock_runtime::manager();
    default.is_ok_and(|default| format!("{default:?}") == format!("{locks:?}"))
}

fn named(prefix: &str) -> Locks {
    Locks::with(Config::new("memory://").prefix(prefix))
}

/// Returns the message of a panic.
fn panic_of(work: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(work)).unwrap_err();
    *panic.downcast::<String>().unwrap()
}

#[tokio::test]
async fn defaults_nest_and_end_with_their_guards() {
    let (outer, inner) = (named("outer:"), named("inner:"));
    let of_outer = outer.set_default();
    assert!(is_default(&outer));
    let of_inner = inner.set_default();
    assert!(is_default(&inner));
    drop(of_inner);
    assert!(is_default(&outer));
    std::thread::scope(|threads| {
        let elsewhere = threads.spawn(|| is_default(&outer));
        assert!(!elsewhere.join().unwrap());
    });
    let again = lock_runtime::init("memory://").await.unwrap_err();
    assert!(matches!(again, LockError::AlreadyInitialized), "{again}");
    drop(of_outer);
    assert!(!is_default(&outer));
}

/// Each call finds its own manager, on whatever thread it continues.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn scopes_follow_their_tasks() {
    let (one, two) = (Locks::new(), Locks::new());
    let _other = one.hold_elsewhere("row:1").await;
    for _ in 0..100 {
        let of_one = tokio::spawn(one.scope(async {
            tokio::task::yield_now().await;
            call(1).await
        }));
        let of_two = tokio::spawn(two.scope(call(1)));
        assert!(of_one.await.unwrap().unwrap_err().is_busy());
        assert_eq!(of_two.await.unwrap().unwrap(), 1);
    }
    let inner = two.scope(async { call(1).await.is_ok() });
    assert!(one.scope(inner).await);
}

#[tokio::test]
async fn shutdown_of_the_global_manager_is_that_of_the_default() {
    let locks = Locks::new();
    let _default = locks.set_default();
    lock_runtime::shutdown().await;
    assert!(matches!(call(1).await, Err(LockError::ShuttingDown { .. })));
}

#[tokio::test(start_paused = true)]
async fn lost_lock_is_free_if_the_server_no_longer_keeps_it() {
    let locks = Locks::new();
    for (cause, is_free) in [
        (LostCause::Expired, true),
        (LostCause::NotRenewed, true),
        (LostCause::NotOwner, true),
        (LostCause::MaxHold, false),
        (LostCause::ShutDown, false),
    ] {
        let guard = locks.lock("row").acquire().await.unwrap();
        locks.lose("row", cause);
        let found = guard.ensure_valid_for(Duration::ZERO).unwrap_err();
        assert!(matches!(found, LockError::Lost { cause: found, .. } if found == cause));
        let next = locks.lock("row").try_acquire().await.unwrap();
        assert_eq!(next.is_some(), is_free, "{cause:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn lost_lock_passes_to_the_waiter() {
    let locks = Locks::new();
    let body = tokio::spawn(locks.lock("row").run(async |_| pending::<()>().await));
    locks.wait_until_held("row").await;
    let waiter = tokio::spawn(locks.lock("row").wait(60 * SECOND).acquire());
    locks.wait_until_waiting("row", 1).await;
    // The waiter polls the server.
    sleep(SECOND).await;
    let start = Instant::now();
    locks.lose("row", LostCause::NotOwner);
    let _guard = waiter.await.unwrap().unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert!(body.await.unwrap().unwrap_err().is_lost());
}

#[tokio::test]
async fn loss_of_a_lock_that_is_not_held_names_those_that_are() {
    let locks = Locks::new();
    let lose = || locks.lose("row", LostCause::Expired);
    let none = panic_of(lose);
    assert!(
        none.contains("`row`") && none.contains("holds no lock"),
        "{none}"
    );
    let _held = locks.lock_all(["one", "two"]).acquire().await.unwrap();
    let _elsewhere = locks.hold_elsewhere("row").await;
    let some = panic_of(lose);
    assert!(some.contains("`one`") && some.contains("`two`"), "{some}");
}

#[tokio::test(start_paused = true)]
async fn every_hold_of_a_key_is_lost() {
    let locks = Locks::new();
    let permit = || locks.lock("row").permits(3).acquire();
    let guards = [permit().await.unwrap(), permit().await.unwrap()];
    locks.lose("row", LostCause::Expired);
    assert!(guards.iter().all(|guard| !guard.is_valid()));
}

#[tokio::test]
async fn locks_of_a_test_are_kept_in_memory() {
    let words = panic_of(|| drop(Locks::with("redis://127.0.0.1/")));
    assert!(words.contains("memory://"), "{words}");
    let invalid = Config::new("memory://").ttl(Duration::ZERO);
    let words = panic_of(|| drop(Locks::with(invalid)));
    assert!(words.contains("`ttl`"), "{words}");
}

#[test]
fn locks_outside_of_a_runtime_name_the_remedy() {
    let panic = catch_unwind(Locks::new).unwrap_err();
    let words = panic.downcast_ref::<&str>().unwrap();
    assert!(words.contains("#[tokio::test]"), "{words}");
}

#[tokio::test(start_paused = true)]
async fn server_that_is_down_fails_requests_at_once_and_waits_in_time() {
    let locks = Locks::new();
    let held = locks.lock("held").acquire().await.unwrap();
    locks.fail_with(Fault::Down);
    let start = Instant::now();
    let tried = locks.lock("row").try_acquire().await;
    assert!(tried.unwrap_err().is_unavailable());
    assert!(locks.ping().await.unwrap_err().is_unavailable());
    assert_eq!(start.elapsed(), Duration::ZERO);
    let waited = locks.lock("row").wait(3 * SECOND).acquire().await;
    assert!(waited.unwrap_err().is_unavailable());
    assert!(start.elapsed() < 4 * SECOND);
    assert!(held.fencing_token().await.unwrap_err().is_unavailable());
    assert!(held.is_valid());
    // Another process is not affected, and finds the lock held until the release is repeated.
    let _elsewhere = locks.hold_elsewhere("row").await;
    assert!(held.release().await.unwrap_err().is_unavailable());
    locks.repair();
    let _next = locks.hold_elsewhere("held").await;
}

#[tokio::test(start_paused = true)]
async fn silent_server_answers_after_its_repair() {
    let locks = Locks::with(Config::new("memory://").command_timeout(SECOND));
    locks.fail_with(Fault::Silent);
    let start = Instant::now();
    let silent = locks.lock("row").wait(Duration::ZERO).acquire().await;
    assert!(silent.unwrap_err().is_unavailable());
    assert_eq!(start.elapsed().as_secs(), 1);
    assert!(locks.ping().await.unwrap_err().is_unavailable());
    assert_eq!(start.elapsed().as_secs(), 2);
    let call = tokio::spawn(locks.lock("row").wait(10 * SECOND).acquire());
    sleep(SECOND / 2).await;
    locks.repair();
    let start = Instant::now();
    let _guard = call.await.unwrap().unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn slow_server_only_delays_requests() {
    let locks = Locks::with(Config::new("memory://").command_timeout(SECOND));
    locks.fail_with(Fault::Slow(SECOND / 2));
    let start = Instant::now();
    let guard = locks.lock("row").acquire().await.unwrap();
    assert_eq!(start.elapsed(), SECOND / 2);
    locks.ping().await.unwrap();
    assert_eq!(start.elapsed(), SECOND);
    sleep(3600 * SECOND).await;
    guard.release().await.unwrap();
    locks.fail_with(Fault::Slow(2 * SECOND));
    let slow = locks.lock("row").try_acquire().await;
    assert!(slow.unwrap_err().is_unavailable());
}

/// A grant is lost during an outage, and found after it.
#[tokio::test(start_paused = true)]
async fn waiter_enters_after_an_outage() {
    let locks = Locks::new();
    let other = locks.hold_elsewhere("row").await;
    let waiter = tokio::spawn(locks.lock("row").wait(60 * SECOND).acquire());
    sleep(SECOND).await;
    locks.fail_with(Fault::Down);
    other.release().await.unwrap();
    sleep(SECOND).await;
    assert!(!waiter.is_finished());
    locks.repair();
    let start = Instant::now();
    let _guard = waiter.await.unwrap().unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn calls_are_awaited_until_they_hold_and_wait() {
    let locks = Locks::new();
    let start = Instant::now();
    let later = tokio::spawn({
        let locks = locks.clone();
        async move {
            sleep(3600 * SECOND).await;
            let guard = locks.lock("row").acquire().await.unwrap();
            let waiter = || locks.lock("row").wait(DAY).acquire();
            let ends = async {
                sleep(3600 * SECOND).await;
                drop(guard);
            };
            tokio::join!(waiter(), waiter(), ends)
        }
    });
    locks.wait_until_waiting("row", 0).await;
    locks.wait_until_held("row").await;
    assert_eq!(start.elapsed().as_secs(), 3600);
    locks.wait_until_waiting("row", 2).await;
    assert_eq!(start.elapsed().as_secs(), 3600);
    later.abort();
}

const DAY: Duration = Duration::from_secs(86_400);
