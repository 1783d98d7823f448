//! Asking all processes.

use super::process::{Process, soon, three};
use crate::engine::etcd::tests::scripted_server::ScriptedServer;
use lock_test_support::etcd::Etcd;
use lock_test_support::proxy::Proxy;

#[tokio::test(flavor = "multi_thread")]
async fn an_ask_reaches_every_process_that_is_connected() {
    let etcd = Etcd::start();
    let path = Proxy::to(etcd.port(0));
    let mut one = Process::connect(format!("etcd://127.0.0.1:{}", path.port())).await;
    let [mut other, _, mut operator] = three(&etcd).await;
    let first = "revoke\te823e7be01c58c509a20e4619a300481\t*\tann\tstuck ü";
    operator.engine.ask(first, soon()).await.unwrap();
    for process in [&mut one, &mut other, &mut operator] {
        assert_eq!(&*process.asked().await, first);
    }
    let revision = etcd.ctl(&["get", "lock:::asks", "-w", "json"]);
    // What is asked while it is cut off is lost, and what it has received does not come again.
    path.black_hole();
    operator.engine.ask("second", soon()).await.unwrap();
    assert_ne!(etcd.ctl(&["get", "lock:::asks", "-w", "json"]), revision);
    one.connect_again(&path).await;
    // Its watch has begun when another request on its connection has a reply.
    one.engine.ping(soon()).await.unwrap();
    operator.engine.ask("third", soon()).await.unwrap();
    operator.engine.ask("third", soon()).await.unwrap();
    assert_eq!(&*one.asked().await, "third");
    for expected in ["second", "third", "third"] {
        assert_eq!(&*other.asked().await, expected);
    }
    operator.end().await;
    assert_eq!(etcd.ctl(&["get", "lock:::asks"]), "");
    etcd.ctl(&["put", "lock:::asks", &"z".repeat(100_000)]);
    assert_eq!(&*one.asked().await, "third");
    assert_eq!(one.asked().await.len(), 16 << 10);
}

#[tokio::test]
async fn a_watch_of_asks_whose_history_is_gone_is_made_again() {
    let server = ScriptedServer::start().await;
    let mut process = Process::connect(server.url()).await;
    server.end_watch_and_ask("report").await;
    assert_eq!(&*process.asked().await, "report");
}
