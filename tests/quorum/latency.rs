//! Latency of a lock: that of the median member, regardless of slow and dead ones.

use std::time::Duration;

use lock_runtime::Config;

use super::members::{Members, through};
use lock_test_support::manager::connected;
use lock_test_support::time::{millis, patient};
use tokio::time::Instant;

/// The number of measurements whose median counts.
const TIMES: usize = 15;

struct Took {
    acquire: Duration,
    release: Duration,
    fence: Duration,
}

async fn measure(config: Config) -> Took {
    let locks = connected(patient(config)).await;
    let (mut acquire, mut release, mut fence) = (Vec::new(), Vec::new(), Vec::new());
    for n in 0..TIMES {
        let start = Instant::now();
        let guard = locks.lock(format!("door:{n}")).acquire().await.unwrap();
        acquire.push(start.elapsed());
        let start = Instant::now();
        guard.fencing_token().await.unwrap();
        fence.push(start.elapsed());
        let start = Instant::now();
        guard.release().await.unwrap();
        release.push(start.elapsed());
    }
    let median = |mut times: Vec<Duration>| {
        times.sort();
        times[TIMES / 2]
    };
    Took {
        acquire: median(acquire),
        release: median(release),
        fence: median(fence),
    }
}

/// Members with round trips of 10, 20, 30, 40 ms and more; then with one silent and one dead member.
#[tokio::test]
async fn acquire_latency_is_that_of_median_member() {
    let mut members = Members::start(5);
    let proxies = members.proxies();
    for (proxy, delay) in proxies.iter().zip([5, 10, 15, 20, 400]) {
        proxy.delay(millis(delay));
    }
    let median = measure(Config::new(proxies[2].url())).await;
    let quorum = measure(through(&proxies)).await;
    println!(
        "acquire {:?}, {:?} at the median member; release {:?}, {:?}; fencing token {:?}, {:?}",
        quorum.acquire, median.acquire, quorum.release, median.release, quorum.fence, median.fence,
    );
    assert!(quorum.acquire < median.acquire.mul_f64(1.5));
    assert!(quorum.release < median.release.mul_f64(1.5));
    // A fencing token takes two phases.
    assert!(quorum.fence < median.fence.mul_f64(3.0));

    proxies[4].black_hole();
    members.0[3].kill();
    let quorum = measure(through(&proxies)).await;
    println!(
        "with one silent and one dead: acquire {:?}, release {:?}",
        quorum.acquire, quorum.release
    );
    assert!(quorum.acquire < median.acquire.mul_f64(1.5));
    assert!(quorum.release < median.release.mul_f64(1.5));
}

/// A silent member delays neither waiters nor renewals.
#[tokio::test]
async fn handoff_latency_is_that_of_median_member() {
    let members = Members::start(3);
    let proxies = members.proxies();
    for proxy in &proxies {
        proxy.delay(millis(5));
    }
    let both = [
        connected(patient(through(&proxies))).await,
        connected(patient(through(&proxies))).await,
    ];
    proxies[1].black_hole();
    let mut gaps = Vec::new();
    let mut guard = both[0].lock("door").acquire().await.unwrap();
    for n in 1..=TIMES {
        let lock = both[n % 2].lock("door").wait(millis(10_000));
        let waiting = tokio::spawn(lock.acquire());
        tokio::time::sleep(millis(150)).await;
        let start = Instant::now();
        guard.release().await.unwrap();
        guard = waiting.await.unwrap().unwrap();
        gaps.push(start.elapsed());
    }
    guard.release().await.unwrap();
    gaps.sort();
    println!(
        "{:?} for a handoff, {:?} at most",
        gaps[TIMES / 2],
        gaps[TIMES - 1]
    );
    // A release, and an immediate election: two round trips of 10 ms, and as much again on a busy machine.
    assert!(gaps[TIMES / 2] < millis(45), "{gaps:?}");
}
