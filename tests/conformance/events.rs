//! What a manager tells of its locks, in events and in numbers.

use std::time::Duration;

use lock_runtime::{Config, LockEvent, LockGuard, LockManager};
use tokio::sync::watch;

use super::fixture::Fixture;
use lock_test_support::proxy::Proxy;
use lock_test_support::time::{begin, millis, soon, until};

/// The events of a manager, each in a line.
pub struct Told(watch::Receiver<Vec<String>>);

impl Told {
    /// Adds a handler that records all events.
    pub fn by(config: Config) -> (Config, Told) {
        let (lines, told) = watch::channel(Vec::new());
        let config = config.on_event(move |event| {
            let line = line(event);
            lines.send_modify(|lines| lines.push(line));
        });
        (config, Told(told))
    }

    /// Returns the lines about that key so far.
    pub fn about(&self, key: &str) -> Vec<String> {
        let key = format!(" {key} ");
        let lines = self.0.borrow();
        let lines = lines.iter().filter(|line| line.contains(&key));
        lines.map(|line| line.replace(&key, " ")).collect()
    }

    /// Waits until a loss is told: the thread that notices one wakes the guard before.
    async fn until_lost(&mut self) {
        self.until(|line| line.starts_with("lost ")).await;
    }

    /// Returns the servers of the lines that begin so.
    fn servers(&self, word: &str) -> Vec<String> {
        let lines = self.0.borrow();
        let servers = lines.iter().filter_map(|line| line.strip_prefix(word));
        let mut servers: Vec<_> = servers.map(str::to_owned).collect();
        servers.sort();
        servers
    }

    pub async fn until(&mut self, line: impl Fn(&str) -> bool) {
        let has_come = |lines: &Vec<String>| lines.iter().any(|it| line(it));
        soon(self.0.wait_for(has_come)).await.unwrap();
    }
}

fn line(event: &LockEvent<'_>) -> String {
    match event {
        LockEvent::Acquired {
            key,
            site,
            label,
            locally,
            resumed,
            ..
        } => {
            let template = site.map_or("?", |site| site.template());
            let resumed = if *resumed { " resumed" } else { "" };
            format!("acquired {key} {template} {label:?} locally={locally}{resumed}")
        }
        LockEvent::NotAcquired {
            key,
            outcome,
            error,
            ..
        } => format!("not acquired {key} {outcome} error={}", error.is_some()),
        LockEvent::Released { key, confirmed, .. } => {
            format!("released {key} confirmed={confirmed}")
        }
        LockEvent::Lost { key, cause, .. } => format!("lost {key} {}", cause.as_str()),
        LockEvent::Recalled { key, .. } => format!("recalled {key} by another"),
        LockEvent::Renewed { count, margin, .. } => format!("renewed {count} {margin}"),
        LockEvent::RenewalFailed { server, count, .. } => {
            format!("renewal failed {count} at {server}")
        }
        LockEvent::ServerDown { server, .. } => format!("down {server}"),
        LockEvent::ServerUp { server, .. } => format!("up {server}"),
        other => format!("{other:?}"),
    }
}

pub async fn each_call_and_each_guard_ends_in_one_event(fixture: Fixture) {
    let (config, mut told) = Told::by(fixture.config());
    let locks = fixture.connect(config).await;
    let other = fixture.other();
    let key = fixture.key("row");
    let lock = || locks.lock(&*key);

    let named = lock().template("row").label("request 7");
    named.acquire().await.unwrap().release().await.unwrap();
    drop(lock().acquire().await.unwrap());
    let short = lock().max_hold(millis(10)).acquire().await.unwrap();
    assert!(soon(short.lost()).await.is_lost());
    drop(short);
    told.until_lost().await;
    assert!(lock().ttl(Duration::ZERO).acquire().await.is_err());

    let elsewhere = other.lock(&*key).acquire().await.unwrap();
    assert!(lock().try_acquire().await.unwrap().is_none());
    let mut canceled = Box::pin(lock().acquire());
    tokio::select! {
        _ = &mut canceled => panic!("it is held"),
        () = until(|| locks.stats().waiting > 0) => {}
    }
    // Another call waits already, so this one needs no reply to know.
    let busy = lock().wait(millis(30)).acquire().await.unwrap_err();
    assert!(busy.is_busy());
    drop(canceled);
    elsewhere.release().await.unwrap();
    let expected = [
        "acquired row Some(\"request 7\") locally=false",
        "released confirmed=true",
        "acquired ? None locally=false",
        "released confirmed=false",
        "acquired ? None locally=false",
        "lost max_hold",
        "not acquired rejected error=true",
        "not acquired taken error=false",
        "not acquired busy error=true",
        "not acquired canceled error=false",
    ];
    assert_eq!(told.about(&key), expected);

    let stats = locks.stats();
    assert_eq!((stats.acquired, stats.released, stats.lost), (3, 2, 1));
    assert_eq!((stats.busy, stats.taken, stats.canceled), (1, 1, 1));
    assert_eq!((stats.rejected, stats.unavailable), (1, 0));
    assert_eq!((stats.held, stats.waiting, stats.servers_down), (0, 0, 0));
    soon(locks.shutdown()).await;
}

/// A waiter of the same process gets the lock without a request, and the numbers follow.
pub async fn waiters_and_holders_are_counted(fixture: Fixture) {
    let (config, told) = Told::by(fixture.config());
    let locks = fixture.connect(config).await;
    let key = fixture.key("row");
    let lock = || locks.lock(&*key);
    let first = lock().acquire().await.unwrap();
    let second = tokio::spawn(lock().acquire());
    until(|| locks.stats().waiting > 0).await;
    assert_eq!(locks.stats().held, 1);
    first.release().await.unwrap();
    let second = soon(second).await.unwrap().unwrap();
    let stats = locks.stats();
    assert_eq!((stats.held, stats.waiting, stats.acquired), (1, 0, 2));
    second.release().await.unwrap();
    assert_eq!(locks.stats().held, 0);
    let told = told.about(&key);
    assert_eq!(told.len(), 4, "{told:?}");
    assert_eq!(
        told.iter().filter(|it| it.starts_with("acquired")).count(),
        2
    );
    soon(locks.shutdown()).await;
}

/// Each of the calls that share one read hold, and a call for several keys, has one end.
pub async fn shared_and_several_holds_end_once_for_each_call(fixture: Fixture) {
    let (config, mut told) = Told::by(fixture.config());
    let locks = fixture.connect(config).await;
    let key = fixture.key("read");
    let read = || locks.lock(&*key).read().acquire();
    let (one, other) = (read().await.unwrap(), read().await.unwrap());
    assert_eq!(locks.stats().held, 2);
    one.release().await.unwrap();
    other.release().await.unwrap();
    let ends = told.about(&key);
    let released = ends.iter().filter(|it| it.starts_with("released"));
    assert_eq!(released.count(), 2, "{ends:?}");

    let keys = ["a", "b", "c"].map(|name| fixture.key(name));
    let all = locks.lock_all(keys.clone());
    let all = all.acquire().await.unwrap();
    assert_eq!(locks.stats().held, 1);
    lose(&locks, all).await;
    told.until_lost().await;
    let lost: usize = keys.iter().map(|key| told.about(key).len()).sum();
    assert_eq!(lost, 2, "acquired and lost once");
    let stats = locks.stats();
    assert_eq!((stats.acquired, stats.released, stats.lost), (3, 2, 1));
}

/// Shuts the manager down, and drops the guard that is lost by that.
async fn lose(locks: &LockManager, guard: LockGuard) {
    let lost = async {
        assert!(guard.lost().await.is_lost());
        drop(guard);
    };
    soon(async { tokio::join!(locks.shutdown_within(Duration::ZERO), lost) }).await;
}

/// A guard goes on when others may read beside it.
pub async fn a_downgraded_guard_ends_once(fixture: Fixture) {
    if !fixture.has_permits() {
        return;
    }
    let (config, mut told) = Told::by(fixture.config());
    let locks = fixture.connect(config).await;
    let keys = ["row", "column"].map(|name| fixture.key(name));
    let lock = || locks.lock_all(keys.clone());
    let writer = lock().acquire().await.unwrap();
    let guard = writer.downgrade().await.unwrap();
    assert_eq!((locks.stats().held, locks.stats().released), (1, 0));
    guard.release().await.unwrap();
    assert_eq!((locks.stats().held, locks.stats().released), (0, 1));

    let writer = lock().acquire().await.unwrap();
    lose(&locks, writer.downgrade().await.unwrap()).await;
    told.until_lost().await;
    let lines: Vec<_> = keys.iter().flat_map(|key| told.about(key)).collect();
    let expected = [
        "acquired ? None locally=false",
        "released confirmed=true",
        "acquired ? None locally=false",
        "lost shut_down",
    ];
    assert_eq!(lines.len(), expected.len(), "{lines:?}");
    for line in expected {
        assert!(lines.iter().any(|it| it == line), "{lines:?}");
    }
}

/// Also a reader that has joined the hold of another one, which has left.
pub async fn every_reader_of_a_lost_hold_is_told_while_its_guard_lives(fixture: Fixture) {
    let (config, _) = Told::by(fixture.config());
    let locks = fixture.connect(config).await;
    let key = fixture.key("read");
    let read = || locks.lock(&*key).read().acquire();
    let first = read().await.unwrap();
    let (second, third) = (read().await.unwrap(), read().await.unwrap());
    first.release().await.unwrap();
    assert_eq!(locks.stats().held, 2);
    let ending = tokio::spawn({
        let locks = locks.clone();
        async move { locks.shutdown_within(Duration::ZERO).await }
    });
    until(|| locks.stats().lost == 2).await;
    assert_eq!((locks.stats().held, locks.stats().released), (0, 1));
    drop((second, third));
    assert_eq!((locks.stats().lost, locks.stats().released), (2, 1));
    soon(ending).await.unwrap();
}

/// The call for several keys has lost them, although it could release the others.
pub async fn a_key_that_is_gone_at_the_release_is_told_as_lost(fixture: Fixture) {
    let (config, told) = Told::by(fixture.config());
    let locks = fixture.connect(config).await;
    let keys = ["a", "b", "c"].map(|name| fixture.key(name));
    let guard = locks.lock_all(keys).acquire().await.unwrap();
    let last = guard.keys().last().unwrap().to_owned();
    if !fixture.deleted(&last) {
        return guard.release().await.unwrap();
    }
    assert!(guard.release().await.unwrap_err().is_lost());
    assert_eq!(told.about(&last), ["lost not_owner"]);
    let stats = locks.stats();
    assert_eq!((stats.held, stats.released, stats.lost), (0, 0, 1));
    soon(locks.shutdown()).await;
}

pub async fn renewals_are_told_with_what_was_left_of_the_ttl(fixture: Fixture) {
    let (config, mut told) = Told::by(fixture.config());
    let locks = fixture.connect(config).await;
    let lock = locks.lock(fixture.key("row"));
    let guard = lock.ttl(fixture.renewed_lease()).acquire().await.unwrap();
    let margin = |line: &str| -> Option<f64> {
        let renewed = line.strip_prefix("renewed 1 ")?;
        renewed.parse().ok()
    };
    told.until(|line| margin(line).is_some_and(|margin| margin > 0.0 && margin < 0.8))
        .await;
    assert!(locks.stats().renewed >= 1);
    assert!(guard.is_valid());
    guard.release().await.unwrap();
    soon(locks.shutdown()).await;
}

pub async fn a_server_that_goes_and_comes_back_is_told_once(fixture: Fixture) {
    let Some(network) = fixture.network() else {
        return;
    };
    let (config, mut told) = Told::by(fixture.impatient_config(network.urls.clone()));
    let locks = fixture.connect(config).await;
    let lock = |name: &str| locks.lock(fixture.key(name));
    let held = lock("held").ttl(fixture.renewed_lease());
    let held = held.acquire().await.unwrap();
    assert_eq!(locks.stats().servers_down, 0);

    network.each(Proxy::cut);
    let probe = lock("probe").wait(millis(50));
    assert!(probe.acquire().await.unwrap_err().is_unavailable());
    told.until(|line| line.starts_with("down ")).await;
    told.until(|line| line.starts_with("renewal failed 1 at "))
        .await;
    assert!(locks.stats().servers_down >= 1);
    assert_eq!(locks.stats().unavailable, 1);

    network.each(Proxy::heal);
    drop(soon(lock("again").acquire()).await.unwrap());
    let all_are_up = async {
        while locks.stats().servers_down > 0 || told.servers("down ") != told.servers("up ") {
            drop(lock("again").acquire().await);
        }
    };
    soon(all_are_up).await;
    assert!(!told.servers("up ").is_empty());
    drop(held);
    soon(locks.shutdown()).await;
}

/// The handler is called under no mutex, and its panics end nothing.
pub async fn a_handler_may_use_locks_and_panic(fixture: Fixture) {
    let (managers, manager) = watch::channel(None::<LockManager>);
    let nested = fixture.key("nested");
    let key_of = |event: &LockEvent<'_>| match event {
        LockEvent::Acquired { key, .. }
        | LockEvent::NotAcquired { key, .. }
        | LockEvent::Released { key, .. }
        | LockEvent::Lost { key, .. } => Some(key.to_string()),
        _ => None,
    };
    let config = fixture.config().on_event(move |event| {
        let manager = manager.borrow().clone();
        if let (Some(locks), Some(key)) = (manager, key_of(event))
            && key != nested
        {
            // Takes the mutexes through which all calls go.
            let mut call = Box::pin(locks.lock(&*nested).acquire());
            drop(begin(&mut call));
            drop(call);
            assert_eq!(locks.stats().rejected, 0, "at {key}");
            panic!("the test requires this panic");
        }
    });
    let locks = fixture.connect(config).await;
    let _ = managers.send(Some(locks.clone()));
    let key = fixture.key("row");
    for _ in 0..3 {
        let guard = soon(locks.lock(&*key).acquire()).await;
        soon(guard.unwrap().release()).await.unwrap();
    }
    let short = locks.lock(&*key).max_hold(millis(10));
    let short = soon(short.acquire()).await.unwrap();
    assert!(soon(short.lost()).await.is_lost());
    drop(short);
    let _ = managers.send(None);
    fixture.until_free(&key).await;
    soon(locks.shutdown()).await;
}
