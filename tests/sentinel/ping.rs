//! Pings of the present master.

use lock_test_support::manager::{connected, pings_take, until_pinged};
use lock_test_support::sentinel::Sentinels;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ping_needs_the_present_master() {
    let mut all = Sentinels::start();
    let locks = connected(all.url()).await;
    until_pinged(&locks).await;
    let paused = all.pause_master();
    pings_take(&locks).await;
    let new = all.until_failed_over(paused);
    until_pinged(&locks).await;
    all.resume(paused);
    all.until_settled();
    // The former master is a replica now, which does not matter.
    locks.ping().await.unwrap();
    assert_eq!(all.kill_master(), new);
    pings_take(&locks).await;
    all.until_failed_over(new);
    until_pinged(&locks).await;
    all.restart(new);
}
