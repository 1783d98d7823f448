//! A user of locks whose servers send false replies, or store nonsense.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lock_runtime::{Lock, LockError, LockGuard, LockManager};

use crate::report::Report;
use lock_test_support::exclusion::{Exclusion, UNLIMITED};
use lock_test_support::rng::Rng;
use lock_test_support::time::{PATIENCE, millis, soon};

pub const TTL: Duration = millis(300);
const LIED_ABOUT: Duration = millis(30_000);

/// What a call asks for.
struct Terms {
    keys: Vec<usize>,
    /// The greatest number of holders, itself included.
    limit: usize,
    ttl: Duration,
}

/// The number of keys.
pub const KEYS: usize = 5;

pub struct User {
    pub locks: LockManager,
    pub rng: Rng,
    pub report: Arc<Report>,
    pub replicas: u32,
    /// The servers can count holders.
    pub has_permits: bool,
    /// Checks the holders of each key, if the replies are true.
    pub checks: Option<Arc<[Arc<Exclusion>; KEYS]>>,
}

impl User {
    /// Uses locks until dropped.
    pub async fn live(mut self) {
        let report = self.report.clone();
        loop {
            let ttl = millis(30 + self.rng.below(270));
            let wait = millis(self.rng.below(120));
            let (lock, terms) = self.lock(ttl);
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
                    for warning in report
                        .call("check", Duration::ZERO, check)
                        .await
                        .unwrap_or_default()
                    {
                        assert!(!warning.to_string().is_empty());
                    }
                    None
                }
                _ => None,
            };
            if let Some(guard) = guard {
                self.hold(guard, terms).await;
            }
        }
    }

    /// Returns a lock of any kind.
    fn lock(&mut self, ttl: Duration) -> (Lock, Terms) {
        let mut any = || self.rng.below(KEYS as u64) as usize;
        let (one, other) = (any(), any());
        let lock = |key| self.locks.lock(name(key));
        let (lock, keys, limit) = match self.rng.below(8) {
            0..3 => (lock(one).read(), vec![one], UNLIMITED),
            3 if self.has_permits => (lock(one).permits(2), vec![one], 2),
            4 if one != other => (
                self.locks.lock_all([name(one), name(other)]),
                vec![one, other],
                1,
            ),
            _ => (lock(one), vec![one], 1),
        };
        let lock = lock.ttl(ttl).replicas(self.replicas);
        let terms = Terms { keys, limit, ttl };
        (lock.renew(!self.rng.one_in(4)), terms)
    }

    async fn hold(&mut self, guard: LockGuard, terms: Terms) {
        let Terms { keys, limit, ttl } = terms;
        let now = Instant::now();
        let believed = guard.remaining();
        // Readers of a process share a hold with the ttl of one of them.
        let longest = if limit == UNLIMITED { TTL } else { ttl };
        let most = longest + longest / 8 + millis(10);
        assert!(believed <= most, "{believed:?} remain of a TTL of {ttl:?}");
        let checks = self.checks.iter().flat_map(|checks| {
            let keys = keys.iter();
            keys.map(|key| checks[*key].enter(name(*key), limit, now + believed))
        });
        let holding: Vec<_> = checks.collect();
        // Holders of permits have no fencing tokens.
        if limit != 2 && self.rng.one_in(2) {
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
        drop(holding);
        let is_alone = limit == 1 && keys.len() == 1;
        let guard = match is_alone && self.has_permits && self.rng.one_in(6) {
            true => self.report.call("downgrade", ttl, guard.downgrade()).await,
            false => Some(guard),
        };
        if let Some(guard) = guard.filter(|_| !self.rng.one_in(3)) {
            let release = guard.release();
            self.report.call("release", Duration::ZERO, release).await;
        }
    }
}

fn name(key: usize) -> String {
    format!("hot-{key}")
}

/// Asserts that every lock can be acquired again. A waiter with a false reply about its queue position may
/// poll only seconds later, and a queue entry whose owner was notified of its removal counts as alive for 25
/// s.
pub async fn is_well(locks: &LockManager) {
    let mut names = (0..KEYS).map(name).peekable();
    let end = Instant::now() + LIED_ABOUT;
    while let Some(name) = names.peek() {
        let lock = || locks.lock(name.clone()).ttl(millis(2000)).wait(LIED_ABOUT);
        let acquired = tokio::time::timeout(LIED_ABOUT + PATIENCE, async {
            loop {
                match lock().acquire().await {
                    // A false reply was under way when the lies ended.
                    Err(error) if error.is_unavailable() && Instant::now() < end => {}
                    acquired => break acquired,
                }
            }
        });
        let acquired = acquired.await.expect("the call ends");
        let guard = acquired.expect("the lock can be acquired");
        let token = soon(async {
            loop {
                match guard.fencing_token().await {
                    // The command timeout is short.
                    Err(error) if error.is_unavailable() => {}
                    token => break token,
                }
            }
        });
        match token.await {
            // The machine stalled for the ttl, or no renewal was answered within the command timeout.
            Err(LockError::Lost { .. }) if Instant::now() < end => continue,
            token => assert!(token.unwrap() > 0),
        }
        let released = guard.release().await;
        assert!(
            released.is_ok() || released.is_err_and(|error| error.is_unavailable()),
            "the release succeeds or the server is unavailable"
        );
        names.next();
    }
}
