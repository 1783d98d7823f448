//! Read-write locks: readers share a lock, writers do not, and neither passes the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering::SeqCst};
use std::time::Duration;

use lock_runtime::{Lock, LockError, LockGuard, LockManager};
use tokio::task::{JoinHandle, JoinSet};

use super::fixture::Fixture;
use lock_test_support::time::{begin, millis, soon};

const LONG: Duration = Duration::from_secs(60);

fn reads(locks: &LockManager, key: &str) -> Lock {
    locks.lock(key).read()
}

fn waits(lock: Lock) -> JoinHandle<Result<LockGuard, LockError>> {
    tokio::spawn(lock.acquire())
}

/// Gives a waiter the time to reach the server's queue.
async fn settle() {
    tokio::time::sleep(millis(200)).await;
}

/// Waits until a writer is in the queue of the lock, which readers hold.
async fn until_writer_waits(fixture: &Fixture, key: &str) {
    let waits = async {
        while fixture.is_readable(key).await {
            tokio::time::sleep(millis(5)).await;
        }
    };
    soon(waits).await;
}

pub async fn readers_share_lock_and_exclude_writers(fixture: Fixture) {
    let door = fixture.key("door");
    let [ours, theirs] = fixture.both();
    let readers = [
        reads(&ours, &door).acquire().await.unwrap(),
        reads(&theirs, &door).acquire().await.unwrap(),
        // Not joined: it has an end of its own.
        reads(&ours, &door).max_hold(LONG).acquire().await.unwrap(),
    ];
    for locks in [&ours, &theirs] {
        assert!(locks.lock(&*door).try_acquire().await.unwrap().is_none());
        assert!(reads(locks, &door).try_acquire().await.unwrap().is_some());
    }
    for reader in readers {
        assert!(ours.lock(&*door).try_acquire().await.unwrap().is_none());
        assert!(reader.is_valid());
        reader.release().await.unwrap();
    }
    let writer = theirs.lock(&*door).acquire().await.unwrap();
    for locks in [&ours, &theirs] {
        assert!(reads(locks, &door).try_acquire().await.unwrap().is_none());
    }
    writer.release().await.unwrap();
    fixture.until_free(&door).await;
}

pub async fn readers_and_writers_enter_in_order_of_arrival(fixture: Fixture) {
    let door = fixture.key("door");
    let [ours, theirs] = fixture.both();
    let first = reads(&ours, &door).acquire().await.unwrap();
    settle().await;
    let writer = waits(theirs.lock(&*door));
    until_writer_waits(&fixture, &door).await;
    // They came after the writer.
    let second = waits(reads(&ours, &door));
    settle().await;
    let third = waits(reads(&theirs, &door));
    settle().await;
    assert!(reads(&ours, &door).try_acquire().await.unwrap().is_none());
    assert!(!writer.is_finished() && !second.is_finished() && !third.is_finished());
    first.release().await.unwrap();
    let writer = soon(writer).await.unwrap().unwrap();
    settle().await;
    assert!(!second.is_finished() && !third.is_finished());
    writer.release().await.unwrap();
    let second = soon(second).await.unwrap().unwrap();
    let third = soon(third).await.unwrap().unwrap();
    assert!(second.is_valid() && third.is_valid());
    second.release().await.unwrap();
    third.release().await.unwrap();
    fixture.until_free(&door).await;
}

/// Neither a reader that comes later, nor one that waits, passes a writer of another process by a read hold
/// of its own process, however long local handoff may last.
pub async fn read_hold_from_queue_is_no_way_past_writers(fixture: Fixture) {
    if !fixture.has_queue() {
        return;
    }
    let door = fixture.key("door");
    let ours = fixture
        .connect(fixture.config().local_handoff(1000, LONG))
        .await;
    let [one, other] = fixture.both();
    let first = one.lock(&*door).acquire().await.unwrap();
    let reader = waits(reads(&ours, &door));
    fixture.until_waiting(&door, 1).await;
    let writer = waits(other.lock(&*door));
    fixture.until_waiting(&door, 2).await;
    first.release().await.unwrap();
    let reader = soon(reader).await.unwrap().unwrap();
    assert!(reads(&ours, &door).try_acquire().await.unwrap().is_none());
    let second = waits(reads(&ours, &door));
    settle().await;
    assert!(!writer.is_finished() && !second.is_finished());
    reader.release().await.unwrap();
    let writer = soon(writer).await.unwrap().unwrap();
    settle().await;
    assert!(!second.is_finished());
    writer.release().await.unwrap();
    let second = soon(second).await.unwrap().unwrap();
    second.release().await.unwrap();
    fixture.until_free(&door).await;
    ours.shutdown().await;
}

pub async fn writer_that_gives_up_lets_readers_enter(fixture: Fixture) {
    let door = fixture.key("door");
    let [ours, theirs] = fixture.both();
    let first = reads(&ours, &door).acquire().await.unwrap();
    settle().await;
    let writer = waits(theirs.lock(&*door));
    until_writer_waits(&fixture, &door).await;
    let second = waits(reads(&ours, &door));
    settle().await;
    assert!(!second.is_finished());
    writer.abort();
    let second = soon(second).await.unwrap().unwrap();
    assert!(first.is_valid());
    first.release().await.unwrap();
    second.release().await.unwrap();
    fixture.until_free(&door).await;
}

/// A crowd of readers needs few holds, and each reader's guard works like one of its own.
pub async fn readers_of_one_process_join_a_hold(fixture: Fixture) {
    let door = fixture.key("door");
    let mut crowd = JoinSet::new();
    for n in 0..200 {
        let lock = reads(fixture.locks(), &door);
        crowd.spawn(async move {
            let guard = lock.acquire().await.unwrap();
            tokio::time::sleep(millis(n % 7)).await;
            assert!(guard.is_valid());
            if n % 3 == 0 {
                guard.release().await.unwrap();
            }
        });
    }
    soon(crowd.join_all()).await;
    fixture.until_free(&door).await;
}

pub async fn readers_of_a_free_lock_are_not_too_many_waiters(fixture: Fixture) {
    let door = fixture.key("door");
    // On a busy machine a reader may join later than the default allows.
    let locks = fixture
        .connect(fixture.config().local_handoff(1000, LONG))
        .await;
    let mut crowd = JoinSet::new();
    for _ in 0..20 {
        crowd.spawn(reads(&locks, &door).max_waiters(2).acquire());
    }
    let readers = soon(crowd.join_all()).await;
    assert!(readers.iter().all(Result::is_ok), "{readers:?}");
    drop(readers);
    fixture.until_free(&door).await;
    locks.shutdown().await;
}

/// One reader tries for the others; its caller does not poll it again.
pub async fn reader_depends_on_no_other_one(fixture: Fixture) {
    let door = fixture.key("door");
    let mut stuck = Box::pin(reads(fixture.locks(), &door).acquire());
    let acquired = begin(&mut stuck);
    let other = reads(fixture.locks(), &door).acquire();
    let other = soon(other).await.unwrap();
    assert!(other.is_valid());
    drop((acquired, stuck));
    other.release().await.unwrap();
    fixture.until_free(&door).await;
}

pub async fn loss_reaches_every_reader_of_a_hold(fixture: Fixture) {
    let door = fixture.key("door");
    let read = || reads(fixture.locks(), &door).ttl(fixture.short_lease());
    let (one, two) = tokio::join!(read().acquire(), read().acquire());
    let (one, two) = (one.unwrap(), two.unwrap());
    if !fixture.deleted(&door) {
        return;
    }
    let lost = async { tokio::join!(one.lost(), two.lost()) };
    let (one, two) = soon(lost).await;
    assert!(one.is_lost() && two.is_lost());
}

pub async fn readers_and_writers_never_overlap(fixture: Fixture) {
    let door = fixture.key("door");
    let inside = Arc::new(AtomicI32::new(0));
    let mut tasks = JoinSet::new();
    for n in 0..16 {
        let (locks, door) = (fixture.both()[n % 2].clone(), door.clone());
        let inside = inside.clone();
        tasks.spawn(async move {
            for _ in 0..12 {
                let writes = n % 4 == 0;
                let lock = locks.lock(&*door);
                let lock = if writes { lock } else { lock.read() };
                let guard = lock.acquire().await.unwrap();
                let weight = if writes { -1000 } else { 1 };
                let before = inside.fetch_add(weight, SeqCst);
                assert!(if writes { before == 0 } else { before >= 0 }, "{before}");
                tokio::time::sleep(millis(1)).await;
                assert!(guard.is_valid());
                inside.fetch_sub(weight, SeqCst);
                guard.release().await.unwrap();
            }
        });
    }
    soon(tasks.join_all()).await;
    fixture.until_free(&door).await;
}

pub async fn downgrade_admits_readers_and_no_writer(fixture: Fixture) {
    let door = fixture.key("door");
    let [ours, theirs] = fixture.both();
    let writer = ours.lock(&*door).acquire().await.unwrap();
    if !fixture.has_permits() {
        let refused = writer.downgrade().await.unwrap_err();
        assert!(matches!(refused, LockError::Unsupported { .. }));
        return fixture.until_free(&door).await;
    }
    let token = writer.fencing_token().await.unwrap();
    let reader = waits(reads(&theirs, &door));
    fixture.until_waiting(&door, 1).await;
    let next_writer = waits(theirs.lock(&*door));
    fixture.until_waiting(&door, 2).await;
    let guard = writer.downgrade().await.unwrap();
    let reader = soon(reader).await.unwrap().unwrap();
    settle().await;
    assert!(guard.is_valid() && !next_writer.is_finished());
    assert_eq!(guard.fencing_token().await.unwrap(), token);
    let guard = guard.downgrade().await.unwrap();
    guard.release().await.unwrap();
    settle().await;
    assert!(!next_writer.is_finished());
    reader.release().await.unwrap();
    let next = soon(next_writer).await.unwrap().unwrap();
    next.release().await.unwrap();
    fixture.until_free(&door).await;
}

pub async fn dropped_downgrade_frees_lock(fixture: Fixture) {
    let door = fixture.key("door");
    if !fixture.has_permits() {
        return;
    }
    for polls in 0..3 {
        let writer = fixture.locks().lock(&*door).acquire();
        let mut downgrade = Box::pin(writer.await.unwrap().downgrade());
        for _ in 0..polls {
            if begin(&mut downgrade).is_ready() {
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(downgrade);
        fixture.until_free(&door).await;
    }
}

pub async fn fencing_tokens_order_readers_and_writers(fixture: Fixture) {
    let row = fixture.key("row");
    let [ours, theirs] = fixture.both();
    let mut last_write = 0;
    for _ in 0..5 {
        let writer = ours.lock(&*row).acquire().await.unwrap();
        let write = writer.fencing_token().await.unwrap();
        writer.release().await.unwrap();
        let readers = tokio::join!(reads(&ours, &row).acquire(), reads(&theirs, &row).acquire());
        let readers = [readers.0.unwrap(), readers.1.unwrap()];
        let mut greatest = write;
        for reader in &readers {
            let read = reader.fencing_token().await.unwrap();
            assert!(read > write && write > last_write);
            greatest = greatest.max(read);
        }
        for reader in readers {
            reader.release().await.unwrap();
        }
        last_write = greatest;
    }
}
