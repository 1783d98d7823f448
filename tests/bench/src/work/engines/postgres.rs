//! PostgreSQL.

use super::{Engine, OURS, REST, Targets};
use crate::contenders::connect;
use crate::contenders::ours::Ours;
use crate::contenders::postgres::{Advised, Advisory, Sqlx, Updates, client};
use crate::load::clock;
use lock_test_support::postgres::Postgres;
use lock_test_support::servers::Pooled;
use std::time::Duration;
use tokio_postgres::{AsyncMessage, NoTls};

pub const ENGINE: Engine = Engine {
    name: "postgres",
    start: |_| Box::new(Pooled::from(Postgres::as_installed())),
    is_quorum: false,
    contenders: &[
        ("two-updates", connect::<Updates>),
        (OURS, connect::<Ours>),
        ("advisory-pair", connect::<Advisory>),
        ("sqlx", connect::<Sqlx>),
        ("distributed-lock", connect::<Advised>),
    ],
    waiting: &[],
    bare_hand_off: |url, passes| Box::pin(notify(url, passes)),
    bare_name: "commit, NOTIFY → receive",
    targets: Targets {
        alone: [1.25, 1.25],
        hand_off: 1.7,
        many: &[("advisory-pair", 15.0), ("sqlx", 2.5)],
        crowd: &[],
    },
};

/// Returns the times from before a commit until another connection has received the notification that follows
/// it.
async fn notify(url: &str, passes: u64) -> Vec<Duration> {
    let sender = client(url).await;
    let (listener, mut connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    let (heard, mut messages) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok(message)) = std::future::poll_fn(|cx| connection.poll_message(cx)).await {
            if let AsyncMessage::Notification(_) = message {
                let _ = heard.send(clock());
            }
        }
    });
    listener.batch_execute("LISTEN bench").await.unwrap();
    let update = "UPDATE updates SET n = n + 1 WHERE id = 0";
    let update = sender.prepare(update).await.unwrap();
    let mut times = Vec::new();
    for _ in 0..passes {
        tokio::time::sleep(2 * REST).await;
        let sent = clock();
        sender.execute(&update, &[]).await.unwrap();
        sender.batch_execute("NOTIFY bench").await.unwrap();
        times.push(messages.recv().await.unwrap() - sent);
    }
    times
}
