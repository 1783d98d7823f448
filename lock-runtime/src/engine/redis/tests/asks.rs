//! Asking all processes.

use crate::config::Config;
use crate::engine::error::EngineErrorKind;
use crate::engine::event::EngineEvent;
use crate::engine::redis::tests::{Process, claim, soon};
use lock_test_support::cluster::Cluster;
use lock_test_support::permissions;
use lock_test_support::server::Server;
use std::time::Duration;

impl Process {
    async fn ask(&self, text: &str) {
        self.engine.ask(text, soon()).await.unwrap();
    }

    async fn asked(&mut self) -> String {
        let read = |event| match event {
            EngineEvent::Asked(text) => Some(text.to_string()),
            _ => None,
        };
        self.next(read).await
    }

    /// Listens, and waits until the subscription is there.
    async fn listens(&mut self) {
        self.engine.listen();
        let read = |event| matches!(event, EngineEvent::Resubscribed).then_some(());
        self.next(read).await;
    }
}

async fn an_ask_reaches_all_that_listen(url: String) {
    let mut one = Process::connect(url.clone()).await;
    let mut other = Process::connect(url.clone()).await;
    let asks = Process::connect(url).await;
    one.listens().await;
    // A process that has waited hears it anyway.
    let (mine, waits) = (claim("door"), claim("door"));
    other.hold(&mine).await;
    other.wait(&waits).await;
    for text in ["report", "revoke\ta\n{b} é", ""] {
        asks.ask(text).await;
        assert_eq!(one.asked().await, text);
        assert_eq!(other.asked().await, text);
    }
    // It hears its own.
    one.ask("again").await;
    assert_eq!(one.asked().await, "again");
    assert!(other.release(&mine).await);
    assert_eq!(other.granted().await, waits.token);
    assert!(other.release(&waits).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ask_reaches_all_that_listen_to_a_server() {
    let server = Server::start();
    an_ask_reaches_all_that_listen(server.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ask_reaches_all_that_listen_to_a_cluster() {
    let cluster = Cluster::plan().without_replicas().start();
    an_ask_reaches_all_that_listen(cluster.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_listens_again_after_its_connection_broke() {
    let server = Server::start();
    let mut process = Process::connect(server.url()).await;
    process.listens().await;
    server.query::<()>("CLIENT KILL TYPE pubsub");
    process.listens().await;
    process.ask("report").await;
    assert_eq!(process.asked().await, "report");
}

/// The user may subscribe to the channels of grants alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_are_granted_without_the_right_to_listen() {
    let server = Server::start();
    let [commands, _] = permissions::commands();
    let channels = "resetchannels &lock:::grants:*";
    let user = format!("ACL SETUSER clerk reset on >s3cret ~lock:* {channels} {commands}");
    server.query::<()>(&user);
    let config = Config::new(server.url()).credentials("clerk", "s3cret");
    let mut process = Process::connect(config).await;
    process.listens().await;
    let (mine, waits) = (claim("door"), claim("door"));
    process.hold(&mine).await;
    process.wait(&waits).await;
    let error = process.engine.ask("report", soon()).await.unwrap_err();
    assert_eq!(error.kind, EngineErrorKind::Rejected);
    assert!(error.to_string().contains("channels"), "{error}");
    assert!(process.release(&mine).await);
    assert_eq!(process.granted().await, waits.token);
    assert!(process.release(&waits).await);
    let other = Process::connect(server.url()).await;
    other.ask("report").await;
    let heard = tokio::time::timeout(Duration::from_millis(200), process.asked()).await;
    assert!(heard.is_err(), "{heard:?}");
}
