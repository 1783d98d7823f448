//! Whole engines in virtual time, on a server behind a bad network: their clocks run at different rates,
//! processes die, stop to renew and are forced, and transactions rely on proofs.

mod client;
mod clock;
mod server;
mod witness;

use crate::engine::store::simulation_tests::client::{Habits, Process, Use};
use crate::engine::store::simulation_tests::server::{LOCK, Server};
use crate::engine::store::simulation_tests::witness::Witness;
use crate::util::runtime_clock::RuntimeClock;
use lock_test_support::rng::Rng;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::runtime::{Builder, Handle};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

const PROCESSES: u64 = 3;
/// How long processes come and go.
const LASTS: Duration = Duration::from_secs(60);
/// All leases, calls of waiters and late writes end sooner.
const SETTLES: Duration = Duration::from_secs(60);

/// Returns the rate of a clock: two differ by less than 2 %.
fn rate(rng: &mut Rng) -> f64 {
    [0.991, 1.0, 1.009][rng.below(3) as usize]
}

/// Returns the numbers of holds, commits and faults.
async fn simulate(seed: u64) -> [u64; 3] {
    let _clock = RuntimeClock::of(&Handle::current());
    let mut rng = Rng::with(seed);
    let server_rate = rate(&mut rng);
    let server = Server::new(rng.split(), server_rate);
    let witness = Arc::new(Witness::default());
    let habits = Habits {
        draw_numbers: rng.one_in(2),
        pause: [500, 4000, 20_000][rng.below(3) as usize],
    };
    let mut places = JoinSet::new();
    for _ in 0..PROCESSES {
        let (server, witness, mut rng) = (server.clone(), witness.clone(), rng.split());
        places.spawn(async move {
            loop {
                let process = Process::new(&server, &witness, rate(&mut rng), habits);
                let mut callers = JoinSet::new();
                for _ in 0..2 {
                    let (process, rng) = (process.clone(), rng.split());
                    callers.spawn(process.call_on(rng));
                }
                let life = sleep(Duration::from_secs(rng.below(60)));
                tokio::select! {
                    // It dies.
                    () = life => {}
                    Some(ended) = callers.join_next() => ended.unwrap(),
                }
            }
        });
    }
    let forces = {
        let process = Process::new(&server, &witness, 1.0, habits);
        process.force_on(rng.split())
    };
    places.spawn(forces);
    tokio::select! {
        () = sleep(LASTS) => {}
        Some(ended) = places.join_next() => ended.unwrap(),
    }
    places.shutdown().await;
    server.is_faulty.store(false, Relaxed);
    let last = Process::new(&server, &witness, 1.0, habits);
    let holds = async { while !last.hold_once(&mut rng, Use::Exclusive).await {} };
    let held = timeout(SETTLES, holds).await;
    let record = server.record(LOCK);
    assert!(held.is_ok(), "none gets the lock any more: {record:?}");
    let [holds, commits] = witness.counts();
    [holds, commits, server.faults.load(Relaxed)]
}

/// `LOCK_SIMULATIONS` plays that many.
#[test]
fn holders_exclude_each_other_whatever_the_network_and_the_clocks_do() {
    let count = std::env::var("LOCK_SIMULATIONS").map_or(60, |count| count.parse().unwrap());
    let mut seeds = Rng::random();
    let mut sums = [0; 3];
    for _ in 0..count {
        let seed = seeds.below(u64::MAX);
        let runtime = Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let played = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            runtime.block_on(simulate(seed))
        }));
        let counts = played.unwrap_or_else(|_| panic!("seed {seed}"));
        for (sum, count) in sums.iter_mut().zip(counts) {
            *sum += count;
        }
    }
    assert!(
        sums.iter().all(|it| *it > 0),
        "{sums:?} holds, commits and faults"
    );
}
