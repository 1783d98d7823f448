//! Requests that are sent before the replies to earlier ones have come.

use lock_test_support::manager::warmed_up;
use lock_test_support::postgres::{Postgres, url_at};
use lock_test_support::proxy::Proxy;
use lock_test_support::time::{begin, eventually, patient};

/// Two acquisitions are sent together, and fail since the server waits too long for one of the locks. Before
/// that reply comes, their callers leave, and the releases are sent. Neither acquisition may be sent again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acquisition_is_not_repeated_after_its_release() {
    let server = Postgres::start();
    let proxy = Proxy::recording(server.port());
    let locks = warmed_up(patient(url_at(proxy.port()))).await;
    let other = server.client().await;
    let mutex = "SELECT pg_advisory_lock(hashtextextended('distributed_lock lock:one', 0))";
    other.batch_execute(mutex).await.unwrap();
    let acquire = |key| tokio::spawn(locks.lock(key).acquire());
    let happens = |what, is_so: &dyn Fn() -> bool| eventually(what, is_so);
    // As many rounds as may be under way. What follows waits, and goes out together.
    proxy.hold_replies();
    let first = acquire("first");
    happens("the first round", &|| server.is_held("first"));
    let second = acquire("second");
    happens("the second round", &|| server.is_held("second"));
    let mut together = ["one", "two"].map(|key| Box::pin(locks.lock(key).acquire()));
    together
        .iter_mut()
        .for_each(|acquire| assert!(begin(acquire).is_pending()));
    proxy.hold_requests();
    proxy.pass_replies();
    let before = [
        first.await.unwrap().unwrap(),
        second.await.unwrap().unwrap(),
    ];
    let held = proxy.held_replies();
    proxy.hold_replies();
    proxy.pass_requests();
    happens("the failure", &|| proxy.held_replies() > held);
    other
        .batch_execute("SELECT pg_advisory_unlock_all()")
        .await
        .unwrap();
    drop(together);
    happens("the releases are sent", &|| proxy.sent("lock:two") == 2);
    proxy.pass_replies();
    // It is sent when the round that failed has ended.
    let after = locks.lock("after").acquire().await.unwrap();
    assert!(!server.is_held("one") && !server.is_held("two"));
    for guard in before.into_iter().chain([after]) {
        guard.release().await.unwrap();
    }
}
