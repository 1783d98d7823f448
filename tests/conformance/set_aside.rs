//! Calls that are polled no more, as in a `select!` loop whose other branch is busy, or on a thread that is blocked. A
//! lock that such a call is granted passes on.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use lock_runtime::{Lock, LockError, LockGuard, LockManager};
use tokio::time::Instant;

use super::fixture::Fixture;
use lock_test_support::time::{NOISE, begin, millis, soon, within};

const LONG: Duration = Duration::from_secs(60);

/// How long a call may leave a lock that it was granted unused.
const PICK_UP: Duration = millis(2200);

type Call = Pin<Box<dyn Future<Output = Result<LockGuard, LockError>> + Send>>;

/// Polls the call until it waits, and then no more.
async fn set_aside(lock: Lock) -> Call {
    let mut call: Call = Box::pin(lock.acquire());
    let waits = tokio::time::timeout(millis(250), &mut call).await;
    assert!(waits.is_err(), "the call does not wait");
    call
}

async fn held(locks: &LockManager, key: &str) -> LockGuard {
    locks.lock(key).acquire().await.unwrap()
}

/// Checks that another process gets the lock in that time.
async fn passes_on(lock: Lock, limit: Duration) {
    let guard = within(limit + NOISE, lock.wait(LONG).acquire()).await;
    guard.unwrap().release().await.unwrap();
}

pub async fn grant_that_is_not_picked_up_passes_to_another_process(fixture: Fixture) {
    let door = fixture.key("door");
    let third = fixture.another().await;
    let holder = held(fixture.other(), &door).await;
    let lock = fixture.locks().lock(&*door).ttl(millis(1000)).wait(LONG);
    let mut call = set_aside(lock).await;
    let other = tokio::spawn(third.lock(&*door).wait(LONG).acquire());
    tokio::time::sleep(millis(100)).await;
    holder.release().await.unwrap();
    let other = within(PICK_UP + NOISE, other).await.unwrap().unwrap();
    assert!(begin(&mut call).is_pending(), "two holders");
    other.release().await.unwrap();
    soon(call).await.unwrap().release().await.unwrap();
    third.shutdown().await;
}

pub async fn grant_passes_on_at_the_deadline_of_its_call(fixture: Fixture) {
    let door = fixture.key("door");
    let holder = held(fixture.other(), &door).await;
    let deadline = Instant::now() + millis(700);
    let call = set_aside(fixture.locks().lock(&*door).wait(millis(700))).await;
    holder.release().await.unwrap();
    passes_on(fixture.other().lock(&*door), millis(450)).await;
    // A quorum may grant the lock to the other process first: then it passes on from the call to no one.
    tokio::time::sleep_until(deadline + NOISE).await;
    let late = soon(call).await.unwrap_err();
    assert!(late.is_busy(), "{late}");
}

pub async fn call_past_its_deadline_gets_no_lock(fixture: Fixture) {
    let door = fixture.key("door");
    let holder = held(fixture.other(), &door).await;
    let call = set_aside(fixture.locks().lock(&*door).wait(millis(300))).await;
    tokio::time::sleep(millis(100)).await;
    holder.release().await.unwrap();
    passes_on(fixture.other().lock(&*door), Duration::ZERO).await;
    let late = soon(call).await.unwrap_err();
    assert!(late.is_busy(), "{late}");
}

/// The process holds the lock itself, and hands it over without the server.
pub async fn grant_that_is_not_picked_up_passes_to_the_next_local_waiter(fixture: Fixture) {
    let door = fixture.key("door");
    let holder = held(fixture.locks(), &door).await;
    let lock = || fixture.locks().lock(&*door).wait(LONG);
    let calls = [set_aside(lock()).await, set_aside(lock()).await];
    let next = tokio::spawn(lock().acquire());
    tokio::time::sleep(millis(100)).await;
    holder.release().await.unwrap();
    let next = within(PICK_UP * 2 + NOISE, next).await.unwrap().unwrap();
    next.release().await.unwrap();
    for call in calls {
        within(PICK_UP + NOISE, call)
            .await
            .unwrap()
            .release()
            .await
            .unwrap();
    }
}

/// Readers of one process share a hold; one of them is not polled.
pub async fn read_hold_ends_without_the_reader_that_is_not_polled(fixture: Fixture) {
    let door = fixture.key("door");
    let holder = held(fixture.other(), &door).await;
    let reader = || fixture.locks().lock(&*door).read().wait(LONG);
    let call = set_aside(reader()).await;
    let reads = tokio::spawn(reader().acquire());
    tokio::time::sleep(millis(100)).await;
    holder.release().await.unwrap();
    let reads = within(PICK_UP + NOISE, reads).await.unwrap().unwrap();
    reads.release().await.unwrap();
    passes_on(fixture.other().lock(&*door), PICK_UP).await;
    let read = within(PICK_UP + NOISE, call).await.unwrap();
    read.release().await.unwrap();
}

pub async fn keys_of_a_call_that_is_not_polled_pass_on(fixture: Fixture) {
    let names = [fixture.key("a"), fixture.key("b")];
    let both = || fixture.locks().lock_all(&names).ttl(millis(1000));
    let guard = both().acquire().await.unwrap();
    let [first, second] = [0, 1].map(|n| guard.keys().nth(n).unwrap().to_owned());
    guard.release().await.unwrap();
    for (wait, limit) in [(LONG, PICK_UP), (millis(700), millis(450))] {
        let holder = held(fixture.other(), &second).await;
        let call = set_aside(both().wait(wait)).await;
        assert!(fixture.is_held(&first).await);
        passes_on(fixture.other().lock(&*first), limit).await;
        holder.release().await.unwrap();
        passes_on(fixture.other().lock(&*second), limit).await;
        match soon(call).await {
            Ok(guard) => guard.release().await.unwrap(),
            Err(late) => assert!(late.is_busy() && wait < LONG, "{late}"),
        }
    }
}
