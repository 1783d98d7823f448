//! Readers and writers on members whose replies are lost or late.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use lock_runtime::LockManager;
use tokio::task::JoinSet;

use super::members::{Members, through};
use lock_test_support::exclusion::{Exclusion, UNLIMITED};
use lock_test_support::manager::connected;
use lock_test_support::proxy::Proxy;
use lock_test_support::rng::Rng;
use lock_test_support::time::{eventually, millis, soon};

/// A member has a tenth of it to reply.
const TTL: Duration = millis(3000);
/// How often each process holds the lock for reading, and for writing.
const HOLDS: usize = 8;

/// Disturbs the replies of a few members at a time.
async fn disturb(proxies: Arc<Vec<Proxy>>, ends: Arc<AtomicBool>, mut rng: Rng) {
    while !ends.load(Relaxed) {
        let proxy = &proxies[rng.below(proxies.len() as u64) as usize];
        match rng.below(5) {
            0 => proxy.lose_next_reply(),
            1 => {
                proxy.hold_replies();
                tokio::time::sleep(millis(rng.below(30))).await;
                proxy.lose_held_replies();
            }
            // Later than the engine waits for a member, or not.
            2 => proxy.delay_replies(millis(rng.below(400))),
            3 => proxy.hold_replies(),
            _ => proxy.hold_requests(),
        }
        tokio::time::sleep(millis(rng.below(40))).await;
        if rng.one_in(3) {
            proxies.iter().for_each(Proxy::heal);
            tokio::time::sleep(millis(rng.below(200))).await;
        } else {
            proxy.heal();
        }
    }
    proxies.iter().for_each(Proxy::heal);
}

/// Holds the lock often, and checks that no other holder excludes it.
async fn hold(locks: LockManager, writes: bool, exclusion: Arc<Exclusion>, mut rng: Rng) {
    let mut held = 0;
    while held < HOLDS {
        let lock = locks.lock("door").ttl(TTL).wait(millis(rng.below(1500)));
        let lock = if writes { lock } else { lock.read() };
        let guard = match lock.acquire().await {
            Ok(guard) => guard,
            Err(error) if error.is_busy() || error.is_unavailable() => continue,
            Err(error) => panic!("{error}"),
        };
        let (name, limit) = match writes {
            true => ("a writer", 1),
            false => ("a reader", UNLIMITED),
        };
        let until = Instant::now() + guard.remaining();
        let holding = exclusion.enter(name, limit, until);
        tokio::time::sleep(millis(rng.below(20))).await;
        drop(holding);
        drop(guard);
        held += 1;
    }
}

/// Each process has a network of its own to all members.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_and_writers_exclude_each_other_whatever_replies_are_lost() {
    let members = Members::start(3);
    let exclusion = Arc::new(Exclusion::default());
    let ends = Arc::new(AtomicBool::new(false));
    let mut rng = Rng::random();
    let (mut users, mut faults, mut managers) = (JoinSet::new(), JoinSet::new(), Vec::new());
    for _ in 0..3 {
        let proxies = Arc::new(members.proxies());
        let locks = connected(through(&proxies)).await;
        for writes in [false, true] {
            users.spawn(hold(locks.clone(), writes, exclusion.clone(), rng.split()));
        }
        faults.spawn(disturb(proxies.clone(), ends.clone(), rng.split()));
        managers.push((locks, proxies));
    }
    soon(users.join_all()).await;
    ends.store(true, Relaxed);
    soon(faults.join_all()).await;
    members.until_held_by("door", &[]);
    eventually("all waiters have left all queues", || {
        members.0.iter().all(|member| member.waiting("door") == 0)
    });
    for (locks, _proxies) in managers {
        soon(locks.shutdown()).await;
    }
}
