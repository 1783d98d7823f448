//! A command whose reply is lost may have been executed. No lock may stay without a holder.

use lock_runtime::{Config, LockManager};
use tokio::task::JoinSet;

use lock_test_support::manager::{connected, warmed_up};
use lock_test_support::proxy::Proxy;
use lock_test_support::server::Server;
use lock_test_support::time::{NOISE, Stopwatch, begin, eventually, millis, within};

async fn behind_a_proxy() -> (Server, Proxy, LockManager) {
    let server = Server::start();
    let proxy = Proxy::to(server.port());
    let locks = warmed_up(proxy.url()).await;
    (server, proxy, locks)
}

#[tokio::test]
async fn unanswered_acquire_is_retried_and_held_once() {
    let (server, proxy, locks) = behind_a_proxy().await;
    proxy.lose_next_reply();
    let guard = within(millis(2000), locks.lock("row").acquire())
        .await
        .unwrap();
    assert_eq!(proxy.lost_replies(), 1);
    assert!(guard.is_valid());
    assert!(server.exists("lock:row"));
    within(millis(2000), guard.release()).await.unwrap();
    assert!(!server.exists("lock:row"));
}

#[tokio::test]
async fn unanswered_release_is_retried() {
    let (server, proxy, locks) = behind_a_proxy().await;
    let guard = locks.lock("row").acquire().await.unwrap();
    proxy.lose_next_reply();
    drop(guard);
    eventually(NOISE, "the reply is lost", || proxy.lost_replies() == 1);
    server.until_gone("lock:row", millis(1000));

    // An awaited release either succeeds or reports that it could not be confirmed; it never reports a loss.
    let guard = locks.lock("row").acquire().await.unwrap();
    proxy.lose_next_reply();
    let released = within(millis(2500), guard.release()).await;
    assert!(released.is_ok() || released.unwrap_err().is_unavailable());
    assert_eq!(proxy.lost_replies(), 2);
    server.until_gone("lock:row", millis(1000));
}

#[tokio::test]
async fn release_during_outage_is_retried_until_recovery() {
    for black_hole in [false, true] {
        let (server, proxy, locks) = behind_a_proxy().await;
        let dropped = locks.lock("dropped").acquire().await.unwrap();
        let guard = locks.lock("row").acquire().await.unwrap();
        if black_hole {
            proxy.black_hole()
        } else {
            proxy.cut()
        }
        drop(dropped);
        let start = Stopwatch::start();
        let error = within(millis(2500), guard.release()).await.unwrap_err();
        assert!(
            error.is_unavailable() && error.key() == Some("row"),
            "{error}"
        );
        assert!(
            start.elapsed() < millis(500) + NOISE,
            "{:?}",
            start.elapsed()
        );
        assert!(server.exists("lock:row") && server.exists("lock:dropped"));
        proxy.heal();
        server.until_gone("lock:row", millis(2000));
        server.until_gone("lock:dropped", millis(2000));
    }
}

/// Shutdown waits for pending releases.
#[tokio::test]
async fn shutdown_waits_for_retried_release() {
    let (server, proxy, locks) = behind_a_proxy().await;
    let guard = locks.lock("row").acquire().await.unwrap();
    proxy.cut();
    drop(guard);
    let heal = async {
        tokio::time::sleep(millis(300)).await;
        proxy.heal();
    };
    within(millis(4000), async { tokio::join!(locks.shutdown(), heal) }).await;
    assert!(!server.exists("lock:row"));
}

#[tokio::test]
async fn call_dropped_during_acquire_leaves_no_lock() {
    let (server, proxy, locks) = behind_a_proxy().await;
    proxy.hold_replies();
    {
        let mut acquire = Box::pin(locks.lock("row").acquire());
        assert!(begin(&mut acquire).is_pending());
        let granted = async {
            while !server.exists("lock:row") {
                tokio::time::sleep(millis(5)).await;
            }
        };
        tokio::select! {
            _ = &mut acquire => panic!("no reply came"),
            () = within(NOISE, granted) => {}
        }
    }
    proxy.heal();
    server.until_gone("lock:row", millis(1000));
}

/// The request is still in flight when its caller is dropped: it must not leave a lock without a holder.
#[tokio::test]
async fn acquire_arriving_after_its_caller_was_dropped_is_released() {
    let (server, proxy, locks) = behind_a_proxy().await;
    proxy.black_hole();
    {
        let mut acquire = Box::pin(locks.lock("row").acquire());
        assert!(
            tokio::time::timeout(millis(50), &mut acquire)
                .await
                .is_err()
        );
    }
    proxy.heal();
    within(millis(4000), locks.shutdown()).await;
    server.until_gone("lock:row", millis(1000));
}

/// A delayed request arrives long after its caller has gone to another connection.
#[tokio::test]
async fn acquire_arriving_after_its_connection_was_replaced_is_released() {
    let (server, proxy, locks) = behind_a_proxy().await;
    eventually(
        NOISE,
        "the connections of the permission check are closed",
        || proxy.ended() == 1,
    );
    proxy.strand();
    let gave_up = locks.lock("given-up").wait(millis(700)).acquire();
    drop(within(millis(700) + NOISE, gave_up).await);
    // Later requests are not stuck.
    let guard = within(millis(500) + NOISE, locks.lock("row").acquire())
        .await
        .unwrap();
    guard.release().await.unwrap();
    server.until_gone("lock:given-up", NOISE);
    assert_eq!(proxy.ended(), 1, "the request is still in flight");
    proxy.heal();
    eventually(NOISE, "the late request has arrived", || proxy.ended() == 2);
    server.until_gone("lock:given-up", millis(3000));
}

/// By the time the caller is dropped, the runtime has its own connection, which is faster.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acquire_is_released_over_its_own_connection() {
    let server = Server::start();
    let proxy = Proxy::to(server.port());
    let config = Config::new(proxy.url()).command_timeout(millis(20_000));
    let locks = connected(config).await;
    proxy.strand();
    let mut acquires = JoinSet::new();
    for n in 0..40 {
        acquires.spawn(locks.lock(format!("row:{n}")).acquire());
        tokio::task::yield_now().await;
    }
    eventually(NOISE, "there is a second connection", || {
        server.connections() == 2
    });
    // This process must know of it, too.
    tokio::time::sleep(millis(100)).await;
    acquires.shutdown().await;
    tokio::time::sleep(millis(100)).await;
    proxy.heal();
    within(millis(4000), locks.shutdown()).await;
    server.until_gone("lock:row:0", millis(1000));
}

/// The connection is dead without an error, as after a firewall has dropped its state.
#[tokio::test]
async fn dead_connection_is_replaced_during_request() {
    let (server, proxy, locks) = behind_a_proxy().await;
    proxy.strand();
    let acquire = locks.lock("row").wait(millis(20_000)).acquire();
    let guard = within(millis(1000) + NOISE, acquire).await.unwrap();
    guard.release().await.unwrap();
    assert!(!server.exists("lock:row"));
    proxy.heal();
    server.until_gone("lock:row", millis(3000));
}

#[tokio::test]
async fn timed_out_acquire_leaves_no_lock() {
    let (server, proxy, locks) = behind_a_proxy().await;
    for hole in [Proxy::black_hole, Proxy::hold_replies] {
        hole(&proxy);
        let start = Stopwatch::start();
        let error = locks
            .lock("row")
            .wait(millis(400))
            .acquire()
            .await
            .unwrap_err();
        assert!(error.is_unavailable(), "{error}");
        assert!(
            start.elapsed() < millis(400 + 500) + NOISE,
            "{:?}",
            start.elapsed()
        );
        proxy.heal();
        let guard = within(millis(3000), locks.lock("row").wait(millis(3000)).acquire()).await;
        guard.unwrap().release().await.unwrap();
        server.until_gone("lock:row", millis(1000));
    }
    within(millis(4000), locks.shutdown()).await;
    assert!(!server.exists("lock:row"));
}

/// High latency only slows calls down.
#[tokio::test]
async fn slow_network_only_delays_calls() {
    let (server, proxy, locks) = behind_a_proxy().await;
    proxy.delay(millis(60));
    let guard = within(millis(2000), locks.lock("row").acquire())
        .await
        .unwrap();
    assert!(guard.fencing_token().await.unwrap() > 0);
    within(millis(2000), guard.release()).await.unwrap();
    assert!(!server.exists("lock:row"));
}
