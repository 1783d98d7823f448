//! Who holds a lock and who waits for it, as another process sees it.

use std::time::{Duration, Instant, SystemTime};

use lock_runtime::{ClaimInfo, LeaseInfo, LockError, LockInfo, LockManager, Mode};

use super::fixture::{COMMAND_TIMEOUT, Fixture};
use lock_test_support::proxy::Proxy;
use lock_test_support::time::{NOISE, millis, soon};

const TTL: Duration = Duration::from_secs(30);

/// Looks until the lock is as expected: a reply to the holder may come before what a follower shows.
async fn until(locks: &LockManager, key: &str, expected: impl Fn(&LockInfo) -> bool) -> LockInfo {
    let look = async {
        loop {
            let found = locks.inspect(key).await.unwrap();
            if expected(&found) {
                return found;
            }
            tokio::time::sleep(millis(5)).await;
        }
    };
    soon(look).await
}

pub async fn a_free_lock_has_no_holder(fixture: Fixture) {
    let (locks, other) = (fixture.locks(), fixture.other());
    let key = fixture.key("free");
    for _ in 0..2 {
        // A release is confirmed by most members of a quorum; the others follow.
        let is_free = |found: &LockInfo| found.holders().is_empty() && found.waiters().is_empty();
        let found = until(other, &key, is_free).await;
        assert_eq!(found.key(), key);
        assert_eq!(found.waiting(), 0);
        let guard = locks.lock(&*key).acquire().await.unwrap();
        guard.release().await.unwrap();
    }
    for invalid in ["", ":reserved"] {
        let refused = locks.inspect(invalid).await.unwrap_err();
        assert!(matches!(refused, LockError::InvalidKey { .. }), "{refused}");
    }
}

pub async fn holder_and_waiters_are_named(fixture: Fixture) {
    let (locks, other) = (fixture.locks(), fixture.other());
    let key = fixture.key("row");
    let before = SystemTime::now() - millis(1);
    let guard = locks.lock(&*key).acquire().await.unwrap();
    let found = until(other, &key, |found| !found.holders().is_empty()).await;
    let [holder] = found.holders() else {
        panic!("{found:?}");
    };
    assert_eq!(holder.process(), Some(locks.process_id()));
    assert_eq!(holder.mode(), Mode::Exclusive);
    let since = holder.since().unwrap();
    assert!(before <= since && since <= SystemTime::now(), "{since:?}");
    if let Some(LeaseInfo::Ends(left)) = holder.lease() {
        assert!(millis(1) <= left && left <= TTL, "{left:?}");
    } else {
        assert_eq!(holder.lease(), Some(LeaseInfo::WithSession));
    }

    let waiter = tokio::spawn(other.lock(&*key).acquire());
    let found = until(locks, &key, |found| found.waiting() > 0).await;
    assert_eq!(found.holders().len(), 1, "{found:?}");
    let [waits] = found.waiters() else {
        panic!("{found:?}");
    };
    assert_eq!(
        (waits.process(), waits.mode()),
        (Some(other.process_id()), Mode::Exclusive)
    );
    assert!(waits.since().unwrap() >= since);

    guard.release().await.unwrap();
    let next = soon(waiter).await.unwrap().unwrap();
    let of_other = |found: &LockInfo| {
        let holders = found.holders();
        found.waiting() == 0
            && holders
                .iter()
                .any(|it| it.process() == Some(other.process_id()))
    };
    until(locks, &key, of_other).await;
    // The lease of a grant may have ended before its first renewal.
    let _ = next.release().await;
    until(locks, &key, |found| found.holders().is_empty()).await;
}

pub async fn readers_and_permits_are_told_apart(fixture: Fixture) {
    let [locks, other] = fixture.both();
    let mut modes = vec![("read", Mode::Read)];
    if fixture.has_permits() {
        modes.push(("permits", Mode::Permits(3)));
    }
    for (name, mode) in modes {
        let key = fixture.key(name);
        let lock = |locks: &LockManager| {
            let lock = locks.lock(&*key);
            match mode {
                Mode::Read => lock.read(),
                _ => lock.permits(3),
            }
        };
        let one = lock(&locks).acquire().await.unwrap();
        let two = lock(&other).acquire().await.unwrap();
        let found = until(&other, &key, |found| found.holders().len() == 2).await;
        let holders = found.holders().iter();
        assert!(
            holders.clone().all(|holder| holder.mode() == mode),
            "{found:?}"
        );
        let mut ids: Vec<_> = holders
            .map(|it| it.process().unwrap().to_string())
            .collect();
        ids.sort();
        let mut expected = [&locks, &other].map(|locks| locks.process_id().to_string());
        expected.sort();
        assert_eq!(ids, expected);
        one.release().await.unwrap();
        until(&locks, &key, |found| found.holders().len() == 1).await;
        two.release().await.unwrap();
        until(&locks, &key, |found| found.holders().is_empty()).await;
    }
}

pub async fn a_downgraded_holder_is_shown_as_a_reader(fixture: Fixture) {
    if !fixture.has_permits() {
        return;
    }
    let [locks, other] = fixture.both();
    let key = fixture.key("door");
    let lock = |locks: &LockManager| locks.lock(&*key);
    let writer = lock(&locks).acquire().await.unwrap();
    let reader = tokio::spawn(lock(&other).read().acquire());
    until(&locks, &key, |found| found.waiting() == 1).await;
    let writer = writer.downgrade().await.unwrap();
    let reader = soon(reader).await.unwrap().unwrap();
    let found = until(&other, &key, |found| found.holders().len() == 2).await;
    assert_eq!(found.waiting(), 0, "{found:?}");
    let holders = found.holders();
    assert!(
        holders.iter().all(|it| it.mode() == Mode::Read),
        "{found:?}"
    );
    let of_writer = |it: &ClaimInfo| it.process() == Some(locks.process_id());
    assert!(holders.iter().any(of_writer), "{found:?}");
    writer.release().await.unwrap();
    reader.release().await.unwrap();
    until(&locks, &key, |found| found.holders().is_empty()).await;
}

pub async fn another_client_is_shown_as_what_it_is(fixture: Fixture) {
    let (locks, other) = (fixture.locks(), fixture.other());
    let key = fixture.key("stolen");
    let guard = locks.lock(&*key).acquire().await.unwrap();
    if !fixture.stolen(&key) {
        return;
    }
    let found = until(other, &key, |found| {
        let holders = found.holders();
        !holders.is_empty() && holders.iter().all(|it| it.process().is_none())
    });
    let found = found.await;
    let holder = &found.holders()[0];
    assert!(!holder.token().is_empty());
    assert_eq!((holder.mode(), holder.since()), (Mode::Exclusive, None));
    drop(guard);
    fixture.deleted(&key);
    until(other, &key, |found| found.holders().is_empty()).await;
}

pub async fn inspecting_fails_in_time_during_an_outage(fixture: Fixture) {
    let Some((network, locks)) = fixture.over_a_network().await else {
        return;
    };
    let key = fixture.key("row");
    for fault in [Proxy::cut, Proxy::black_hole] {
        network.each(fault);
        let start = Instant::now();
        let error = locks.inspect(&key).await.unwrap_err();
        let took = start.elapsed();
        assert!(error.is_unavailable(), "{error}");
        assert_eq!(error.key(), Some(&*key));
        assert!(took <= COMMAND_TIMEOUT + NOISE, "{took:?}");
        network.each(Proxy::heal);
        soon(async {
            while locks.inspect(&key).await.is_err() {
                tokio::time::sleep(millis(5)).await;
            }
        })
        .await;
    }
    soon(locks.shutdown()).await;
}
