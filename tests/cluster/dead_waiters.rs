//! Killed waiters in a cluster, where `PUBLISH` does not report the number of receivers.

use std::time::{Duration, Instant};

use lock_runtime::Config;

use super::shared;
use lock_test_support::manager::connected;
use lock_test_support::time::{NOISE, Timed, millis, patient, soon};
use lock_test_support::worker::{Worker, arguments, block_on, report_event};

const LONG: Duration = Duration::from_secs(60);
const DEAD: usize = 3;
const KEY: &str = "row-of-killed-waiters";

fn fair(url: &str) -> Config {
    patient(url).local_handoff(0, Duration::ZERO)
}

#[test]
fn killed_waiters_delay_others_by_2_s_and_a_fifth_each() {
    let _timed = Timed::start();
    if let Some(arguments) = arguments() {
        return block_on(async {
            let locks = connected(fair(&arguments[0])).await;
            let acquire = locks.lock(KEY).wait(LONG).acquire();
            report_event("waits");
            drop(acquire.await);
        });
    }
    let cluster = shared::cluster();
    block_on(async {
        let locks = connected(fair(&cluster.url())).await;
        let other = connected(fair(&cluster.url())).await;
        let holder = locks.lock(KEY).acquire().await.unwrap();
        let mut dead = Vec::new();
        for before in 0..DEAD {
            let test = killed_waiters_delay_others_by_2_s_and_a_fifth_each;
            dead.push(Worker::start(test, &[&cluster.url()]));
            dead[before].expect("waits");
            cluster.until_waiting(KEY, before + 1);
        }
        let last = tokio::spawn(other.lock(KEY).wait(LONG).acquire());
        cluster.until_waiting(KEY, DEAD + 1);
        dead.iter_mut().for_each(Worker::kill);
        holder.release().await.unwrap();
        let start = Instant::now();
        let guard = soon(last).await.unwrap().unwrap();
        let most = millis(2000 + 200 * DEAD as u64);
        let waited = start.elapsed();
        println!("{DEAD} killed: {waited:?} of {most:?}");
        assert!(waited <= most + NOISE, "{waited:?}, and {most:?} at most");
        guard.release().await.unwrap();
        locks.shutdown().await;
        other.shutdown().await;
    });
}
