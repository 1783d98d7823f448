//! Connecting to a quorum: which sets of members are accepted, and how errors describe them.

use std::error::Error;

use lock_runtime::{Config, LockError, LockManager};

use super::members::{Members, through};
use lock_test_support::manager::{connected, use_once};
use lock_test_support::server::Server;
use lock_test_support::time::{PATIENCE, eventually, millis, soon};

async fn refused(urls: &[&str]) -> String {
    let error = LockManager::connect(Config::quorum(urls.to_vec())).await;
    let error = error.unwrap_err();
    assert!(matches!(error, LockError::InvalidConfig { .. }), "{error}");
    error.to_string()
}

#[tokio::test]
async fn invalid_sets_of_members_are_rejected() {
    let [a, b, c, d] = [1, 2, 3, 4].map(|n| format!("redis://127.0.0.1:{n}/"));
    for (urls, hint) in [
        (&[][..], "at least 3"),
        (&[&*a], "at least 3"),
        (&[&a, &b], "at least 3"),
        (&[&a, &b, &c, &d], "leave one out, or add one"),
        (
            &[&a, &b, &a],
            "`redis://127.0.0.1:1` is in the quorum twice",
        ),
        (&[&a, &b, "redis://user:secret@127.0.0.1:1/3"], "twice"),
        (
            &[&a, &b, "memory://"],
            "`memory://` can't be the member of a quorum",
        ),
        (
            &["zookeeper://a", "zookeeper://b", "zookeeper://c"],
            "quorum",
        ),
        (&[&a, &b, "http://127.0.0.1/"], "`http://` is not known"),
        (&[&a, &b, "127.0.0.1"], "has no scheme"),
    ] {
        let error = refused(urls).await;
        assert!(error.contains(hint), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }
}

#[tokio::test]
async fn majority_suffices_and_recovered_members_are_used() {
    let mut members = Members::start(5);
    members.0[0].kill();
    members.0[3].kill();
    let locks = members.connect().await;
    assert_eq!(locks.stats().servers_down, 2);
    let guard = locks.lock("door").acquire().await.unwrap();
    members.until_held_by("door", &[1, 2, 4]);
    guard.release().await.unwrap();
    members.0[0].restart();
    members.0[3].restart();
    eventually("the restarted members are used", || {
        members.0[0].connections() > 0 && members.0[3].connections() > 0
    });
    eventually("no server is down", || locks.stats().servers_down == 0);
    members.0[1].kill();
    members.0[2].kill();
    let guard = locks.lock("door").acquire().await.unwrap();
    members.until_held_by("door", &[0, 3, 4]);
    assert!(guard.fencing_token().await.unwrap() > 0);
    guard.release().await.unwrap();
}

#[tokio::test]
async fn dropping_last_manager_and_guard_closes_connections() {
    let members = Members::start(3);
    let locks = members.connect().await;
    let guard = locks.lock("door").acquire().await.unwrap();
    let waiting = locks.lock("door").wait(millis(10)).acquire().await;
    assert!(waiting.unwrap_err().is_busy());
    drop(locks);
    assert!(guard.is_valid());
    drop(guard);
    eventually("all connections are closed", || {
        members.0.iter().map(Server::connections).sum::<usize>() == 0
    });
}

#[tokio::test]
async fn without_majority_connect_and_acquire_fail() {
    let mut members = Members::start(3);
    let locks = members.connect().await;
    members.0[0].kill();
    members.0[2].kill();
    let url = |n: usize| format!("redis://127.0.0.1:{}", members.0[n].port());
    let hasty = members.config().connect_timeout(millis(4000));
    let error = LockManager::connect(hasty).await.unwrap_err();
    assert!(error.is_unavailable() && error.key().is_none(), "{error}");
    let source = error.source().unwrap().to_string();
    let connected = format!("`{}`: connected", url(1));
    assert!(source.contains(&connected), "{source}");
    let missing = format!("`{}`: not reached (", url(2));
    assert!(source.contains(&missing), "{source}");

    let error = soon(locks.lock("door").try_acquire()).await.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    for n in 0..3 {
        assert!(error.to_string().contains(&url(n)), "{error}");
    }
    let source = error.source().unwrap().to_string();
    assert!(source.starts_with("no 2 of 3 members agreed: "), "{source}");
    // Two refusals may come first.
    let heard = ["granted", "no reply yet"].map(|heard| format!("`{}`: {heard}", url(1)));
    assert!(heard.iter().any(|it| source.contains(it)), "{source}");
    let missing = format!("`{}`: not reached (", url(0));
    assert!(source.contains(&missing), "{source}");
    members.until_held_by("door", &[]);

    // A waiter acquires the lock when there is a majority again.
    let waiting = locks.lock("door").wait(PATIENCE).acquire();
    let waiting = tokio::spawn(waiting);
    tokio::time::sleep(millis(100)).await;
    assert!(!waiting.is_finished());
    members.0[2].restart();
    let guard = soon(waiting).await.unwrap().unwrap();
    guard.release().await.unwrap();
}

#[tokio::test]
async fn shared_password_is_used_and_one_rejecting_member_is_tolerated() {
    let mut members = Members((0..3).map(|_| Server::with_password("secret")).collect());
    let config = || members.config().credentials("", "secret");
    let locks = connected(config()).await;
    use_once(&locks, "door").await;
    let error = LockManager::connect(members.config().credentials("", "wrong"));
    let error = error.await.unwrap_err();
    assert!(matches!(error, LockError::InvalidConfig { .. }), "{error}");
    assert!(error.to_string().contains("refused ("), "{error}");
    assert!(!error.to_string().contains("wrong"), "{error}");
    // A single member that rejects the password counts as unavailable.
    members.0[1] = Server::with_password("other");
    let config = members.config().credentials("", "secret");
    let locks = connected(config).await;
    use_once(&locks, "door").await;
}

/// Acquires and releases the lock, however often a member does not reply in time.
async fn works(locks: &LockManager, key: &str) {
    let use_lock = async || locks.lock(key).acquire().await?.release().await;
    let works = async {
        while let Err(error) = use_lock().await {
            assert!(error.is_unavailable() || error.is_busy(), "{error}");
        }
    };
    soon(works).await;
}

/// The connection to a member breaks or falls silent; the member is used again after recovery.
#[tokio::test]
async fn disconnected_member_is_used_after_recovery() {
    let members = Members::start(3);
    let proxies = members.proxies();
    let locks = connected(through(&proxies)).await;
    for (n, proxy) in proxies.iter().enumerate() {
        match n {
            0 => proxy.cut(),
            _ => proxy.black_hole(),
        }
        for _ in 0..5 {
            works(&locks, "door").await;
        }
        // Long enough for the connection to be given up.
        tokio::time::sleep(millis(600)).await;
        works(&locks, "door").await;
        proxy.heal();
        let before = members.0[n].calls(&["evalsha", "eval"]);
        let used = async {
            while members.0[n].calls(&["evalsha", "eval"]) == before {
                works(&locks, "other").await;
            }
        };
        soon(used).await;
        members.until_held_by("door", &[]);
    }
}
