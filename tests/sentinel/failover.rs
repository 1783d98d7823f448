//! The master is killed while clients use it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::task::JoinSet;

use lock_test_support::manager::connected;
use lock_test_support::sentinel::Sentinels;
use lock_test_support::time::{Timed, eventually, millis, patient, soon};
use lock_test_support::worker::{Worker, arguments, block_on, next_order, report_event};

const LONG: Duration = Duration::from_secs(60);
const TTL: Duration = Duration::from_secs(3);

fn milliseconds() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    now.as_millis().try_into().unwrap()
}

/// In each process: eight tasks acquire locks in turn until ordered to stop. Reports the first acquisition
/// after the master's death.
async fn use_locks(url: &str) {
    let locks = connected(url).await;
    let died = Arc::new(AtomicU64::new(u64::MAX));
    let stop = Arc::new(AtomicU64::new(0));
    let (orders, ends) = (died.clone(), stop.clone());
    std::thread::spawn(move || {
        orders.store(next_order().parse().unwrap(), Relaxed);
        next_order();
        ends.store(1, Relaxed);
    });
    let mut tasks = JoinSet::new();
    for task in 0..8 {
        let (locks, died, stop) = (locks.clone(), died.clone(), stop.clone());
        tasks.spawn(async move {
            let mut taken = 0;
            while stop.load(Relaxed) == 0 {
                let key = format!("row:{}", (task + taken) % 6);
                let asked = milliseconds();
                let lock = locks.lock(key).ttl(TTL).wait(LONG);
                let Ok(guard) = lock.acquire().await else {
                    continue;
                };
                let killed = died.load(Relaxed);
                if asked > killed && died.swap(u64::MAX, Relaxed) == killed {
                    report_event("resumed");
                }
                tokio::time::sleep(millis(2)).await;
                let _ = guard.release().await;
                taken += 1;
                if taken == 1 {
                    report_event("runs");
                }
            }
            taken
        });
    }
    let taken: u64 = tasks.join_all().await.iter().sum();
    locks.shutdown().await;
    report_event(format!("done {taken}"));
}

#[test]
fn killed_master_is_replaced_under_load() {
    if let Some(arguments) = arguments() {
        return block_on(use_locks(&arguments[0]));
    }
    let mut all = Sentinels::start();
    let start = || Worker::start(killed_master_is_replaced_under_load, &[&all.url()]);
    let mut workers: Vec<_> = (0..4).map(|_| start()).collect();
    for worker in &workers {
        (0..8).for_each(|_| drop(worker.expect("runs")));
    }
    let old = all.kill_master();
    let killed = milliseconds().to_string();
    workers.iter_mut().for_each(|worker| worker.order(&killed));
    all.until_failed_over(old);
    for worker in &workers {
        worker.expect("resumed");
    }
    workers.iter_mut().for_each(|worker| worker.order("stop"));
    for worker in &mut workers {
        // At most as long as a lock that the new master still stores.
        let taken = worker.expect("done");
        println!("{taken} locks");
        worker.succeeds();
    }
    // A lock that could not be released before the master died stays until its TTL ends.
    let new = all.master();
    (0..6).for_each(|n| all.server(new).until_gone(&format!("lock:row:{n}")));
    // So does a place in a queue, for longer.
    all.server(new).query::<()>("FLUSHALL");
}

/// The queue is on the new master as well, and its waiters subscribe there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_are_served_in_order_by_new_master() {
    let _timed = Timed::start();
    let mut all = Sentinels::start();
    let fair = || patient(all.url()).local_handoff(0, Duration::ZERO);
    let holders = connected(fair()).await;
    let holder = holders.lock("door").acquire().await.unwrap();
    let (mut managers, mut waiting) = (Vec::new(), Vec::new());
    let order = Arc::new(Mutex::new(Vec::new()));
    for n in 0..4 {
        let locks = connected(fair()).await;
        let (lock, order) = (locks.lock("door").wait(LONG), order.clone());
        waiting.push(tokio::spawn(async move {
            let guard = lock.acquire().await.unwrap();
            order.lock().unwrap().push(n);
            guard.release().await.unwrap();
        }));
        all.server(0).until_waiting("door", n + 1);
        managers.push(locks);
    }
    assert!(all.until_replicated(2));
    let old = all.kill_master();
    let new = all.until_failed_over(old);
    let new = all.server(new);
    eventually("all managers are subscribed to the new master", || {
        let channels: Vec<String> = new.query("PUBSUB CHANNELS lock:::grants:*");
        // The holder's, too: it has renewed its lease there.
        channels.len() == managers.len() + 1
    });
    assert!(holder.is_valid());
    new.until_waiting("door", 4);
    holder.release().await.unwrap();
    for waiter in waiting {
        soon(waiter).await.unwrap();
    }
    assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3]);
}
