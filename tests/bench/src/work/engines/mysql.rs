//! MySQL and MariaDB.

use super::{Engine, OURS, REST, Targets};
use crate::contenders::connect;
use crate::contenders::mysql::{Named, Polled, Rows, client};
use crate::contenders::ours::Ours;
use crate::load::clock;
use lock_test_support::mariadb::MariaDb;
use sqlx::Executor;
use std::time::Duration;

pub const ENGINE: Engine = Engine {
    name: "mysql",
    start: |_| Box::new(MariaDb::as_installed()),
    is_quorum: false,
    contenders: &[
        ("insert+delete", connect::<Rows>),
        (OURS, connect::<Ours>),
        ("sqlx GET_LOCK", connect::<Named>),
    ],
    waiting: &[
        ("sqlx GET_LOCK", connect::<Named>),
        (OURS, connect::<Ours>),
        ("UPDATE every 100 ms", connect::<Polled>),
    ],
    bare_hand_off: |url, passes| Box::pin(ring(url, passes)),
    bare_name: "commit, KILL QUERY → end",
    targets: Targets {
        alone: [1.2, 1.2],
        hand_off: 1.3,
        many: &[("insert+delete", 4.0)],
        crowd: &[("sqlx GET_LOCK", 0.9), ("UPDATE every 100 ms", 3.0)],
    },
};

/// Returns the times from before a commit until another connection has heard the bell that follows it.
async fn ring(url: &str, passes: u64) -> Vec<Duration> {
    let (mut sender, mut holder, mut ear) =
        (client(url).await, client(url).await, client(url).await);
    let table = "CREATE TABLE IF NOT EXISTS commits (id BIGINT PRIMARY KEY, n BIGINT NOT NULL)";
    sender.execute(table).await.unwrap();
    sender
        .execute("INSERT IGNORE INTO commits VALUES (0, 0)")
        .await
        .unwrap();
    holder.execute("DO GET_LOCK('ring', 0)").await.unwrap();
    ear.execute("DO GET_LOCK('ear', 0)").await.unwrap();
    let (heard, mut bells) = tokio::sync::mpsc::unbounded_channel();
    let listens = tokio::spawn(async move {
        loop {
            // MySQL says by an error that the statement was ended.
            let _ = ear.execute("SELECT GET_LOCK('ring', 25)").await;
            if heard.send(clock()).is_err() {
                break;
            }
        }
    });
    let mut times = Vec::new();
    for _ in 0..passes {
        tokio::time::sleep(2 * REST).await;
        let sent = clock();
        sender
            .execute("UPDATE commits SET n = n + 1 WHERE id = 0")
            .await
            .unwrap();
        sender
            .execute("KILL QUERY IS_USED_LOCK('ear')")
            .await
            .unwrap();
        times.push(bells.recv().await.unwrap() - sent);
    }
    listens.abort();
    times
}
