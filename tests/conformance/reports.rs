//! What processes tell of themselves, and which locks are in use.

use std::time::Duration;

use lock_runtime::{Config, LockError, LockInfo, LockManager, ProcessInfo, Report};

use super::fixture::Fixture;
use super::lazy::{is_kept, lazy};
use lock_test_support::time::{millis, soon};
use tokio::time::Instant;

/// For how long a lock is held is told in these.
const GRAIN: Duration = Duration::from_secs(1);

fn config(fixture: &Fixture) -> Config {
    let config = fixture.config().service("orders").version("2.3.1");
    config.report(Report::Live)
}

/// Asks until the lock is described as expected: a process may not listen yet.
async fn until(locks: &LockManager, key: &str, expected: impl Fn(&LockInfo) -> bool) -> LockInfo {
    let look = async {
        loop {
            locks.ask_for_reports().await.unwrap();
            let found = locks.inspect(key).await.unwrap();
            if expected(&found) {
                return found;
            }
        }
    };
    soon(look).await
}

async fn process(of: &LockManager, seen_by: &LockManager) -> Option<ProcessInfo> {
    let processes = seen_by.processes().await.unwrap();
    let mut processes = processes.into_iter();
    processes.find(|process| process.id() == of.process_id())
}

pub async fn a_process_tells_who_it_is(fixture: Fixture) {
    let (locks, other) = (fixture.connect(config(&fixture)).await, fixture.other());
    let key = fixture.key("row");
    let guard = locks.lock(&*key).acquire().await.unwrap();
    // Nobody has asked: it tells so much by itself.
    let named = async {
        loop {
            let found = other.inspect(&key).await.unwrap();
            let holder = found.holders().first();
            if let Some(info) = holder.and_then(|holder| holder.process_info()) {
                return info.clone();
            }
            tokio::time::sleep(millis(5)).await;
        }
    };
    let info = soon(named).await;
    assert_eq!(
        (info.id(), info.pid()),
        (locks.process_id(), std::process::id())
    );
    assert_eq!((info.service(), info.version()), ("orders", Some("2.3.1")));
    assert!(info.to_string().starts_with("orders 2.3.1 at "), "{info}");
    let listed = process(&locks, other).await.unwrap();
    assert_eq!(
        (listed.service(), listed.started()),
        ("orders", info.started())
    );
    guard.release().await.unwrap();
    locks.shutdown().await;
}

pub async fn a_claim_is_described(fixture: Fixture) {
    if !fixture.hears_asks() {
        return;
    }
    let (locks, other) = (fixture.connect(config(&fixture)).await, fixture.other());
    let key = fixture.key("tab\t\"row\"\n");
    let lock = || locks.lock(&*key);
    let begun = Instant::now();
    let guard = lock().template("row:<id>").label("4b\tf9").acquire().await;
    let guard = guard.unwrap();
    // Two calls of one process are one claim.
    let waiting = fixture.connect(config(&fixture)).await;
    let calls = [0; 2].map(|_| {
        let call = waiting.lock(&*key).acquire();
        tokio::spawn(async { call.await.unwrap().release().await.unwrap() })
    });
    let described = |found: &LockInfo| found.holders().iter().any(|it| it.template().is_some());
    let found = until(other, &key, described).await;
    let [holder] = found.holders() else {
        panic!("{found:?}");
    };
    assert_eq!(
        (holder.template(), holder.label()),
        (Some("row:<id>"), Some("4b\tf9"))
    );
    let place = holder.place().unwrap();
    assert!(place.contains("reports.rs:"), "{place}");
    assert!(holder.held_for().unwrap() <= begun.elapsed() + GRAIN);
    assert_eq!(holder.callers(), None);
    assert_eq!(process(&locks, other).await.unwrap().held(), Some(1));

    let counted = |found: &LockInfo| found.waiters().iter().any(|it| it.callers() == Some(2));
    let found = until(other, &key, counted).await;
    let waiters = found.waiters();
    assert!(
        waiters
            .iter()
            .all(|it| it.process() == Some(waiting.process_id())),
        "{found:?}"
    );
    let told = process(&waiting, other).await.unwrap();
    assert_eq!(
        (told.held(), told.waiting(), told.lost()),
        (Some(0), Some(2), Some(0))
    );
    guard.release().await.unwrap();
    for call in calls {
        soon(call).await.unwrap();
    }
    tokio::join!(locks.shutdown(), waiting.shutdown());
}

/// No call has it, so none is shown.
pub async fn a_kept_lock_is_told_from_a_held_one(fixture: Fixture) {
    if !fixture.hears_asks() {
        return;
    }
    let (locks, other) = (fixture.connect(config(&fixture)).await, fixture.other());
    let key = fixture.key("row");
    let lock = || lazy(&locks, &key).template("row:<id>");
    let begun = Instant::now();
    if is_kept(&fixture, &locks, lock).await {
        let kept = async {
            loop {
                // The time for which it is kept may end before the next report.
                lock().acquire().await.unwrap().release().await.unwrap();
                other.ask_for_reports().await.unwrap();
                let found = other.inspect(&key).await.unwrap();
                if found.holders().iter().any(|it| it.is_kept()) {
                    return found;
                }
            }
        };
        let found = soon(kept).await;
        let [holder] = found.holders() else {
            panic!("{found:?}");
        };
        assert_eq!((holder.template(), holder.place()), (None, None));
        assert_eq!(holder.process_info().unwrap().service(), "orders");
        assert!(holder.held_for().unwrap() <= begun.elapsed() + GRAIN);
    }
    let guard = lock().acquire().await.unwrap();
    let held = |found: &LockInfo| {
        let [holder] = found.holders() else {
            return false;
        };
        holder.template() == Some("row:<id>") && !holder.is_kept()
    };
    until(other, &key, held).await;
    guard.release().await.unwrap();
    locks.shutdown().await;
}

pub async fn a_process_that_has_shut_down_is_listed_no_more(fixture: Fixture) {
    let (locks, other) = (fixture.connect(config(&fixture)).await, fixture.other());
    let lock = locks.lock(fixture.key("row"));
    lock.acquire().await.unwrap().release().await.unwrap();
    let listed = async {
        while process(&locks, other).await.is_none() {
            tokio::time::sleep(millis(5)).await;
        }
    };
    soon(listed).await;
    locks.shutdown().await;
    assert_eq!(process(&locks, other).await, None);
}

pub async fn a_process_may_tell_nothing(fixture: Fixture) {
    let silent = fixture.connect(config(&fixture).report(Report::Off)).await;
    let other = fixture.connect(config(&fixture)).await;
    let key = fixture.key("row");
    let guard = silent.lock(&*key).acquire().await.unwrap();
    let told = other.lock(fixture.key("told")).acquire().await.unwrap();
    let reported = async {
        while process(&other, &other).await.is_none() {
            tokio::time::sleep(millis(5)).await;
        }
    };
    soon(reported).await;
    let found = other.inspect(&key).await.unwrap();
    let [holder] = found.holders() else {
        panic!("{found:?}");
    };
    assert_eq!(holder.process(), Some(silent.process_id()));
    assert!(holder.process_info().is_none(), "{holder:?}");
    assert_eq!(process(&silent, &other).await, None);
    guard.release().await.unwrap();
    told.release().await.unwrap();
    tokio::join!(silent.shutdown(), other.shutdown());
}

pub async fn locks_in_use_are_listed(fixture: Fixture) {
    let (locks, other) = (fixture.connect(config(&fixture)).await, fixture.other());
    let prefix = fixture.key("list:");
    let lock = |name: &str| locks.lock(format!("{prefix}{name}"));
    let guards = [lock("b").acquire().await, lock("a").read().acquire().await];
    let guards = guards.map(Result::unwrap);
    let keys = |found: &[LockInfo]| -> Vec<String> {
        let keys = found.iter().map(|lock| lock.key());
        keys.map(|key| key.strip_prefix(&*prefix).unwrap().to_owned())
            .collect()
    };
    let listed = async |scan: bool, expected: &[&str]| {
        let look = async {
            loop {
                other.ask_for_reports().await.unwrap();
                let list = other.list(&*prefix);
                let found = if scan { list.scan() } else { list }.await.unwrap();
                if keys(&found) == expected {
                    return found;
                }
            }
        };
        soon(look).await
    };
    for scan in [false, true] {
        let found = listed(scan, &["a", "b"]).await;
        assert!(
            found.iter().all(|lock| lock.holders().len() == 1),
            "{found:?}"
        );
        let services = found.iter().map(|lock| lock.holders()[0].process_info());
        assert!(services.flatten().all(|info| info.service() == "orders"));
        let one = other.list(&*prefix).scan().limit(1).await.unwrap();
        assert_eq!(one.len(), 1);
    }
    let refused = other.list(":").await.unwrap_err();
    assert!(matches!(refused, LockError::InvalidKey { .. }), "{refused}");
    for guard in guards {
        guard.release().await.unwrap();
    }
    for scan in [false, true] {
        listed(scan, &[]).await;
    }
    locks.shutdown().await;
}
