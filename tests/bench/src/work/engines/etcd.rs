//! etcd.

use super::{Engine, OURS, REST, Targets};
use crate::contenders::connect;
use crate::contenders::etcd::{LockCalls, Puts, client};
use crate::contenders::ours::Ours;
use crate::load::clock;
use lock_test_support::etcd::Etcd;
use std::time::Duration;

pub const ENGINE: Engine = Engine {
    name: "etcd",
    start: |members| Box::new(Etcd::as_installed(members)),
    is_quorum: false,
    contenders: &[
        ("put+delete", connect::<Puts>),
        (OURS, connect::<Ours>),
        ("etcd-client lock", connect::<LockCalls>),
    ],
    waiting: &[],
    bare_hand_off: |url, passes| Box::pin(write(url, passes)),
    bare_name: "one write",
    targets: Targets {
        alone: [1.15, 1.25],
        hand_off: 1.3,
        many: &[("put+delete", 0.9)],
        crowd: &[],
    },
};

/// Returns the times of single writes.
async fn write(url: &str, passes: u64) -> Vec<Duration> {
    let mut client = client(url).await;
    let mut times = Vec::new();
    for _ in 0..passes {
        tokio::time::sleep(2 * REST).await;
        let sent = clock();
        client.put("bench", "", None).await.unwrap();
        times.push(clock() - sent);
    }
    times
}
