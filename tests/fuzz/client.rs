//! A user of locks whose servers send false replies.

use std::sync::Arc;
use std::time::Duration;

use lock_runtime::{Lock, LockGuard, LockManager};

use crate::SLACK;
use crate::report::Report;
use lock_test_support::rng::Rng;
use lock_test_support::time::{millis, within};

pub const TTL: Duration = millis(300);
const LIED_ABOUT: Duration = millis(30_000);

pub struct User {
    pub locks: LockManager,
    pub rng: Rng,
    pub report: Arc<Report>,
    pub replicas: u32,
}

impl User {
    /// Uses locks until dropped.
    pub async fn live(mut self) {
        let report = self.report.clone();
        loop {
            let ttl = millis(30 + self.rng.below(270));
            let wait = millis(self.rng.below(120));
            let lock = self.lock(ttl);
            let guard = match self.rng.below(20) {
                0..9 => {
                    report
                        .call("acquire", wait, lock.wait(wait).acquire())
                        .await
                }
                9..15 => {
                    let taken = report
                        .call("try_acquire", millis(60), lock.try_acquire())
                        .await;
                    taken.flatten()
                }
                15 => {
                    let nap = millis(self.rng.below(60));
                    let body = async |_: &LockGuard| tokio::time::sleep(nap).await;
                    report
                        .call("run", wait + nap, lock.wait(wait).run(body))
                        .await;
                    None
                }
                16 => {
                    // A waiter may be dropped at any time.
                    let _ = tokio::time::timeout(wait / 3, lock.wait(wait).acquire()).await;
                    None
                }
                17 if self.rng.one_in(4) => {
                    let check = async { Ok(self.locks.check_servers().await) };
                    for warning in report.call("check", SLACK, check).await.unwrap_or_default() {
                        assert!(!warning.to_string().is_empty());
                    }
                    None
                }
                _ => None,
            };
            if let Some(guard) = guard {
                self.hold(guard, ttl).await;
            }
        }
    }

    fn lock(&mut self, ttl: Duration) -> Lock {
        let key = format!("hot-{}", self.rng.below(5));
        let lock = self.locks.lock(key).ttl(ttl).replicas(self.replicas);
        lock.renew(!self.rng.one_in(4))
    }

    async fn hold(&mut self, guard: LockGuard, ttl: Duration) {
        let believed = guard.remaining();
        let most = ttl + ttl / 8 + millis(10);
        assert!(believed <= most, "{believed:?} remain of a TTL of {ttl:?}");
        if self.rng.one_in(2) {
            let token = guard.fencing_token();
            self.report.call("fencing_token", ttl, token).await;
        }
        if self.rng.one_in(3) {
            let nap = tokio::time::sleep(millis(self.rng.below(150)));
            tokio::select! {
                lost = guard.lost() => assert!(lost.is_lost()),
                () = nap => {}
            }
        }
        if self.rng.one_in(3) {
            drop(guard);
        } else {
            self.report.call("release", SLACK, guard.release()).await;
        }
    }
}

/// Asserts that every lock can be acquired again. A waiter with a false reply about its queue position may
/// poll only seconds later, and a queue entry whose owner was notified of its removal counts as alive for 25
/// s.
pub async fn is_well(locks: &LockManager) {
    for n in 0..5 {
        let lock = locks
            .lock(format!("hot-{n}"))
            .ttl(millis(2000))
            .wait(LIED_ABOUT);
        let guard = within(LIED_ABOUT + SLACK, lock.acquire())
            .await
            .expect("the lock can be acquired");
        let token = within(LIED_ABOUT, async {
            loop {
                match guard.fencing_token().await {
                    // The command timeout is short.
                    Err(error) if error.is_unavailable() => {}
                    token => break token,
                }
            }
        });
        assert!(token.await.unwrap() > 0);
        let released = guard.release().await;
        assert!(
            released.is_ok() || released.is_err_and(|error| error.is_unavailable()),
            "the release succeeds or the server is unavailable"
        );
    }
}
