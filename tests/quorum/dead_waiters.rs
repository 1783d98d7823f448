//! Dead waiters in the queues of a quorum.

use std::time::{Duration, Instant};

use super::members::{Members, through};
use lock_test_support::manager::connected;
use lock_test_support::proxy::Proxy;
use lock_test_support::time::{NOISE, Timed, eventually, millis, soon};

const LONG: Duration = Duration::from_secs(60);
const DEAD: usize = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn black_holed_waiters_delay_others_by_2_s_and_a_fifth_each() {
    let _timed = Timed::start();
    let members = Members::start(3);
    let proxies = members.proxies();
    let waiting = |count| {
        eventually("all queues have the expected length", || {
            let mut queues = members.0.iter().map(|member| member.waiting("door"));
            queues.all(|length| length == count)
        });
    };
    let locks = members.connect().await;
    let other = members.connect().await;
    let holder = locks.lock("door").acquire().await.unwrap();
    let (mut managers, mut dead) = (Vec::new(), Vec::new());
    for before in 0..DEAD {
        let locks = connected(through(&proxies)).await;
        dead.push(tokio::spawn(locks.lock("door").wait(LONG).acquire()));
        managers.push(locks);
        waiting(before + 1);
    }
    let last = tokio::spawn(other.lock("door").wait(LONG).acquire());
    waiting(DEAD + 1);
    proxies.iter().for_each(Proxy::black_hole);
    holder.release().await.unwrap();
    let start = Instant::now();
    let guard = soon(last).await.unwrap().unwrap();
    let most = millis(2000 + 200 * DEAD as u64);
    let waited = start.elapsed();
    println!("{DEAD} cut off: {waited:?} of {most:?}");
    assert!(waited <= most + NOISE, "{waited:?}, and {most:?} at most");
    proxies.iter().for_each(Proxy::heal);
    // A handle would keep the guard of a waiter that was not too late.
    dead.into_iter().for_each(|waiter| waiter.abort());
    guard.release().await.unwrap();
    waiting(0);
    // A vote that arrives late is released through a proxy.
    for locks in managers {
        soon(locks.shutdown()).await;
    }
}
