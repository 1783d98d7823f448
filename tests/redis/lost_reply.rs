//! A command whose reply is lost may have been executed, beyond the cases of `conformance::lost_replies`.

use lock_runtime::Config;
use tokio::task::JoinSet;

use lock_test_support::manager::connected;
use lock_test_support::proxy::Proxy;
use lock_test_support::server::Server;
use lock_test_support::time::{eventually, millis, soon};

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
    eventually("there is a second connection", || server.connections() == 2);
    // This process must know of it, too.
    tokio::time::sleep(millis(100)).await;
    acquires.shutdown().await;
    tokio::time::sleep(millis(100)).await;
    proxy.heal();
    soon(locks.shutdown()).await;
    server.until_gone("lock:row:0");
}
