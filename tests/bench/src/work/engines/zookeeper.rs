//! ZooKeeper.

use super::{Engine, OURS, REST, Targets};
use crate::contenders::connect;
use crate::contenders::ours::Ours;
use crate::contenders::zookeeper::{Creates, Recipe, client, create};
use crate::load::clock;
use lock_test_support::zookeeper::ZooKeeper;
use std::time::Duration;

pub const ENGINE: Engine = Engine {
    name: "zookeeper",
    start: |members| Box::new(ZooKeeper::as_installed(members)),
    is_quorum: false,
    contenders: &[
        ("create+delete", connect::<Creates>),
        (OURS, connect::<Ours>),
        ("zookeeper-client lock", connect::<Recipe>),
    ],
    waiting: &[],
    bare_hand_off: |url, passes| Box::pin(delete(url, passes)),
    bare_name: "one delete",
    targets: Targets {
        alone: [1.25, 1.25],
        hand_off: 1.2,
        many: &[("create+delete", 0.9)],
        crowd: &[],
    },
};

/// Returns the times of single deletions.
async fn delete(url: &str, passes: u64) -> Vec<Duration> {
    let client = client(url).await;
    let mut times = Vec::new();
    for _ in 0..passes {
        let path = create(&client).await;
        tokio::time::sleep(2 * REST).await;
        let sent = clock();
        client.delete(&path, None).await.unwrap();
        times.push(clock() - sent);
    }
    times
}
