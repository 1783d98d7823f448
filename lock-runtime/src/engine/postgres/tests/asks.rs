use super::{Process, soon};
use crate::config::Config;
use crate::engine::error::EngineErrorKind;
use crate::limit::Limit;
use lock_test_support::postgres::Postgres;

#[tokio::test]
async fn ask_reaches_those_that_listen() {
    let server = Postgres::start();
    let (mut one, mut other, holder) = (
        Process::of(&server).await,
        Process::of(&server).await,
        Process::of(&server).await,
    );
    one.listen();
    one.listen();
    let held = holder.acquire("lock:row", Limit::EXCLUSIVE).await;
    let waits = other.wait("lock:row").await;
    // Those that asked for a lock do, too.
    for process in [&mut one, &mut other] {
        process.next_resubscription().await;
    }
    for text in ["report", "revoke ä\t 7 * reason", "", "echo", "grant x"] {
        one.ask(text, soon()).await.unwrap();
        assert_eq!(&*one.next_ask().await, text);
        assert_eq!(&*other.next_ask().await, text);
    }
    // It may have entered the queue before it listened.
    other.ask_for(&waits).await;
    assert!(holder.release(&held, soon()).await.unwrap());
    assert_eq!(other.next_grant().await.token, waits.token);
    assert!(other.release(&waits, soon()).await.unwrap());
}

/// What all are asked is no message to a claim.
#[tokio::test]
async fn messages_to_a_claim_are_not_taken_from_the_channel_of_all() {
    let server = Postgres::start();
    let mut process = Process::of(&server).await;
    process.listen();
    process.next_resubscription().await;
    let grant = "grant 0123456789abcdef0123456789abcdef 1700000000000001 2000 lock:a";
    process.ask(grant, soon()).await.unwrap();
    process.ask("last", soon()).await.unwrap();
    assert_eq!(&*process.next_ask().await, grant);
    assert_eq!(&*process.next_ask().await, "last");
}

#[tokio::test]
async fn process_listens_again_after_its_connection_broke() {
    let server = Postgres::start();
    let mut process = Process::of(&server).await;
    process.listen();
    process.next_resubscription().await;
    server.terminate_connections();
    // One that no message arrives, and one that they do again.
    for _ in 0..2 {
        process.next_resubscription().await;
    }
    let other = Process::of(&server).await;
    other.ask("report", soon()).await.unwrap();
    assert_eq!(&*process.next_ask().await, "report");
}

#[tokio::test]
async fn schemas_are_asked_each_for_itself() {
    let server = Postgres::start();
    let long = "x".repeat(63);
    let in_long = Config::new(format!("{}?schema={long}", server.url()));
    let (mut process, mut of_long) = (Process::of(&server).await, Process::connect(in_long).await);
    process.listen();
    of_long.listen();
    for process in [&mut process, &mut of_long] {
        process.next_resubscription().await;
    }
    process.ask("one", soon()).await.unwrap();
    of_long.ask("other", soon()).await.unwrap();
    assert_eq!(&*process.next_ask().await, "one");
    assert_eq!(&*of_long.next_ask().await, "other");
}

#[tokio::test]
async fn text_that_the_server_cannot_send_is_refused() {
    let server = Postgres::start();
    let process = Process::of(&server).await;
    let long = process.ask(&"x".repeat(8000), soon()).await.unwrap_err();
    assert_eq!(long.kind, EngineErrorKind::Rejected, "{long}");
    assert!(process.ask("a\0b", soon()).await.is_err());
    assert!(process.ask("report", soon()).await.is_ok());
}
