//! Locks that a replica must acknowledge, on a server without Sentinels.

use lock_runtime::Config;

use lock_test_support::manager::connected;
use lock_test_support::proxy::Proxy;
use lock_test_support::replica::{master, replica_of};
use lock_test_support::time::millis;

/// The connection that awaits replicas is made at the first call, which takes several round trips.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn first_replicated_lock_is_acquired_over_slow_network() {
    let master = master();
    let _replica = replica_of(&master);
    let proxy = Proxy::to(master.port());
    let config = Config::new(proxy.url()).command_timeout(millis(10_000));
    let locks = connected(config.connect_timeout(millis(10_000))).await;
    proxy.delay(millis(50));
    let guard = locks.lock("row").replicas(1).try_acquire().await;
    guard.unwrap().unwrap().release().await.unwrap();
}
