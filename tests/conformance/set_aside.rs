//! Calls that are polled no more, as in a `select!` loop whose other branch is busy, or on a thread that is
//! blocked. A lock that such a call is granted passes on.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use lock_runtime::{Lock, LockError, LockGuard, LockManager};
use tokio::time::Instant;

use super::fixture::Fixture;
use lock_test_support::time::{PATIENCE, begin, millis, soon};

/// How long a call may leave a lock that it was granted unused.
const PICK_UP: Duration = millis(2000);

type Call = Pin<Box<dyn Future<Output = Result<LockGuard, LockError>> + Send>>;

/// Polls a call until it waits on the servers for that key, and then no more. Returns it, and a time at which it had
/// begun.
async fn set_aside(fixture: &Fixture, key: &str, lock: Lock) -> (Call, Instant) {
    loop {
        let mut call: Call = Box::pin(lock.clone().acquire());
        tokio::select! {
            // On a starved machine it may give up before.
            ended = &mut call => assert!(ended.is_err() && !fixture.is_virtual(), "it does not wait"),
            () = fixture.until_waiting(key, 1) => return (call, Instant::now()),
        }
    }
}

/// Polls the call once, whose process holds the lock.
fn set_aside_locally(lock: Lock) -> Call {
    let mut call: Call = Box::pin(lock.acquire());
    assert!(begin(&mut call).is_pending(), "the call does not wait");
    call
}

async fn held(locks: &LockManager, key: &str) -> LockGuard {
    locks.lock(key).acquire().await.unwrap()
}

/// Checks that a call gets the lock in that time.
async fn passes_on(
    fixture: &Fixture,
    limit: Duration,
    call: impl Future<Output = Result<LockGuard, LockError>>,
) {
    let begun = Instant::now();
    let guard = soon(call).await.unwrap();
    fixture.at_most(limit, begun);
    guard.release().await.unwrap();
}

pub async fn grant_that_is_not_picked_up_passes_to_another_process(fixture: Fixture) {
    let door = fixture.key("door");
    let third = fixture.another().await;
    let holder = held(fixture.other(), &door).await;
    let lock = fixture.locks().lock(&*door);
    let (mut call, _) = set_aside(&fixture, &door, lock).await;
    let other = tokio::spawn(third.lock(&*door).acquire());
    fixture.until_waiting(&door, 2).await;
    holder.release().await.unwrap();
    let begun = Instant::now();
    let other = soon(other).await.unwrap().unwrap();
    fixture.at_most(PICK_UP, begun);
    assert!(begin(&mut call).is_pending(), "two holders");
    other.release().await.unwrap();
    soon(call).await.unwrap().release().await.unwrap();
    third.shutdown().await;
}

pub async fn grant_passes_on_at_the_deadline_of_its_call(fixture: Fixture) {
    let door = fixture.key("door");
    let holder = held(fixture.other(), &door).await;
    let wait = millis(1000);
    let lock = fixture.locks().lock(&*door).wait(wait);
    let (call, begun) = set_aside(&fixture, &door, lock).await;
    holder.release().await.unwrap();
    let next = fixture.other().lock(&*door).acquire();
    passes_on(&fixture, wait, next).await;
    // A quorum may grant the lock to the other process first: then it passes on from the call to no one.
    tokio::time::sleep_until(begun + wait).await;
    let late = soon(call).await.unwrap_err();
    assert!(late.is_busy(), "{late}");
}

pub async fn call_past_its_deadline_gets_no_lock(fixture: Fixture) {
    let door = fixture.key("door");
    let holder = held(fixture.other(), &door).await;
    let wait = millis(1000);
    let lock = fixture.locks().lock(&*door).wait(wait);
    let (call, begun) = set_aside(&fixture, &door, lock).await;
    tokio::time::sleep_until(begun + wait).await;
    holder.release().await.unwrap();
    let next = fixture.other().lock(&*door).acquire();
    passes_on(&fixture, Duration::ZERO, next).await;
    let late = soon(call).await.unwrap_err();
    assert!(late.is_busy(), "{late}");
}

/// The process holds the lock itself, and hands it over without the server.
pub async fn grant_that_is_not_picked_up_passes_to_the_next_local_waiter(fixture: Fixture) {
    let door = fixture.key("door");
    let holder = held(fixture.locks(), &door).await;
    let lock = || fixture.locks().lock(&*door);
    let calls = [(); 2].map(|()| set_aside_locally(lock()));
    let next = set_aside_locally(lock());
    holder.release().await.unwrap();
    passes_on(&fixture, PICK_UP * 2, next).await;
    for call in calls {
        passes_on(&fixture, PICK_UP, call).await;
    }
}

/// Readers of one process share a hold; one of them is not polled.
pub async fn read_hold_ends_without_the_reader_that_is_not_polled(fixture: Fixture) {
    let door = fixture.key("door");
    let holder = held(fixture.other(), &door).await;
    let reader = || fixture.locks().lock(&*door).read();
    let (call, _) = set_aside(&fixture, &door, reader()).await;
    let reads = set_aside_locally(reader());
    holder.release().await.unwrap();
    passes_on(&fixture, PICK_UP, reads).await;
    let next = fixture.other().lock(&*door).acquire();
    passes_on(&fixture, PICK_UP, next).await;
    passes_on(&fixture, PICK_UP, call).await;
}

pub async fn keys_of_a_call_that_is_not_polled_pass_on(fixture: Fixture) {
    let names = [fixture.key("a"), fixture.key("b")];
    let both = || fixture.locks().lock_all(&names);
    let guard = both().acquire().await.unwrap();
    let [first, second] = [0, 1].map(|n| guard.keys().nth(n).unwrap().to_owned());
    guard.release().await.unwrap();
    for (wait, limit) in [(PATIENCE, PICK_UP), (millis(1000), millis(1000))] {
        let holder = held(fixture.other(), &second).await;
        let (call, _) = set_aside(&fixture, &second, both().wait(wait)).await;
        assert!(fixture.is_held(&first).await || !fixture.is_virtual());
        let next = |key: &str| fixture.other().lock(key).acquire();
        passes_on(&fixture, limit, next(&first)).await;
        holder.release().await.unwrap();
        passes_on(&fixture, limit, next(&second)).await;
        match soon(call).await {
            Ok(guard) => guard.release().await.unwrap(),
            Err(late) => assert!(late.is_busy() && wait < PATIENCE, "{late}"),
        }
    }
}
