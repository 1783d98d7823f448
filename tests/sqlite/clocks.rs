//! Leases end by a clock of the machine that can't be set, and which processes that have just come know, too.

use std::time::Duration;

use lock_runtime::LockManager;

use lock_test_support::clocks::{Clock, Clocks};
use lock_test_support::servers::{Servers, Sqlite};
use lock_test_support::time::{millis, patient, soon};
use lock_test_support::worker::{Worker, arguments, block_on, next_order, report_event};

const TTL: Duration = millis(2000);

/// Each order is a try by a process that has just come.
#[test]
pub fn process() {
    let Some(arguments) = arguments() else { return };
    block_on(async {
        loop {
            let locks = LockManager::connect(patient(&*arguments[0])).await.unwrap();
            let lock = locks.lock("row").ttl(TTL);
            let guard = lock.try_acquire().await.unwrap();
            report_event(format!("held {}", guard.is_some()));
            next_order();
            drop(guard);
            locks.shutdown().await;
        }
    });
}

/// None lives for as long as the lease, so none observes it for that time.
#[tokio::test]
async fn newcomers_know_that_a_dead_holder_is_gone() {
    let mut file = Sqlite::start();
    file.clear(0);
    let mut holder = Worker::start(process, &[&file.url()]);
    assert_eq!(holder.expect("held"), "true");
    holder.kill();
    let came = async {
        loop {
            let locks = LockManager::connect(patient(file.url())).await.unwrap();
            let guard = locks.lock("row").try_acquire().await.unwrap();
            let is_free = guard.is_some();
            drop(guard);
            locks.shutdown().await;
            if is_free {
                break;
            }
            tokio::time::sleep(millis(50)).await;
        }
    };
    soon(came).await;
}

/// To a process that comes after the wall clock was set, too.
#[test]
fn wall_clock_that_is_set_ends_no_lease() {
    let file = Sqlite::start();
    let holder = block_on(async {
        let locks = LockManager::connect(patient(file.url())).await.unwrap();
        let guard = locks.lock("row").acquire().await.unwrap();
        (locks, guard)
    });
    let clocks = Clocks::correct();
    let mut other = Worker::start_by(process, &[&file.url()], &clocks);
    assert_eq!(other.expect("held"), "false");
    clocks.forward(&[Clock::Wall], Duration::from_secs(86_400));
    other.order("again");
    assert_eq!(other.expect("held"), "false");
    clocks.back(&[Clock::Wall], Duration::from_secs(2 * 86_400));
    other.order("again");
    assert_eq!(other.expect("held"), "false");
    block_on(async {
        let (locks, guard) = holder;
        guard.release().await.unwrap();
        locks.shutdown().await;
    });
}
