//! A quorum of three servers of Redis.

use super::{Engine, OURS, REST, Targets};
use crate::contenders::ours::Ours;
use crate::contenders::quorum::Everywhere;
use crate::contenders::rslock::Rslock;
use crate::contenders::{Contender, Retry, connect};
use crate::load::clock;
use lock_test_support::server::Server;
use std::time::Duration;

pub const ENGINE: Engine = Engine {
    name: "quorum",
    start: |_| {
        Box::new(
            [(); 3]
                .map(|()| Server::start())
                .into_iter()
                .collect::<Vec<_>>(),
        )
    },
    is_quorum: true,
    contenders: &[
        ("commands on 3", connect::<Everywhere>),
        (OURS, connect::<Ours>),
        ("rslock", connect::<Rslock>),
    ],
    waiting: &[],
    bare_hand_off: |urls, passes| Box::pin(pass(urls, passes)),
    bare_name: "release and acquire on 3",
    targets: Targets {
        alone: [1.5, 1.5],
        hand_off: 1.5,
        many: &[("rslock", 0.9)],
        crowd: &[],
    },
};

/// Returns the times of a release and the next acquisition.
async fn pass(urls: &str, passes: u64) -> Vec<Duration> {
    let all = Everywhere::connect(urls, Retry::Default).await;
    let mut times = Vec::new();
    for _ in 0..passes {
        let hold = all.acquire("bench").await;
        tokio::time::sleep(2 * REST).await;
        let sent = clock();
        all.release(hold).await;
        let next = all.acquire("bench").await;
        times.push(clock() - sent);
        all.release(next).await;
    }
    times
}
