//! A process that uses a lock in all ways.

use crate::engine::common::batches::Batches;
use crate::engine::lease::Lease;
use crate::engine::request::{Claim, EnqueueReply};
use crate::engine::store::StoreEngine;
use crate::engine::store::core::Core;
use crate::engine::store::errand::Start;
use crate::engine::store::hearing::Hearing;
use crate::engine::store::keys::Keys;
use crate::engine::store::known::KnownLocks;
use crate::engine::store::machine::{Command, Reply, Want};
use crate::engine::store::simulation_tests::server::{LOCK, Server};
use crate::engine::store::simulation_tests::witness::Witness;
use crate::engine::token::Token;
use crate::limit::Limit;
use crate::process::ProcessId;
use crate::util::clock::{Clock, Timestamp};
use crate::util::io_thread::IoThread;
use crate::util::sync::Mutex;
use crate::util::time::deadline_in;
use lock_test_support::rng::Rng;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

const PATIENCE: Duration = Duration::from_secs(2);

/// What the processes of a simulation do.
#[derive(Clone, Copy)]
pub(crate) struct Habits {
    /// They draw fencing tokens, and take locks. A record stays from then on.
    pub(crate) draw_numbers: bool,
    /// The longest pause between two uses, in milliseconds.
    pub(crate) pause: u64,
}

#[derive(Clone)]
pub(crate) struct Process {
    habits: Habits,
    pub(crate) engine: Arc<StoreEngine>,
    id: ProcessId,
    clock: Clock,
    rate: f64,
    server: Server,
    witness: Arc<Witness>,
}

#[derive(Clone, Copy)]
pub(crate) enum Use {
    Exclusive,
    Permits,
    Shared,
}

/// A lease that the process relies on.
struct Held {
    claim: Claim,
    lease: Lease,
}

fn millis(rng: &mut Rng, most: u64) -> Duration {
    Duration::from_millis(rng.below(most))
}

impl Process {
    pub(crate) fn new(
        server: &Server,
        witness: &Arc<Witness>,
        rate: f64,
        habits: Habits,
    ) -> Process {
        let (id, clock) = (ProcessId::random(), Clock::Rated(Instant::now(), rate));
        let core = Core {
            store: Arc::new(server.clone()),
            database: Some(Arc::new(server.clone())),
            io: IoThread::start().unwrap().yielding(),
            clock: clock.clone(),
            handler: Arc::new(|_| {}),
            keys: Keys::new("lock:"),
            known: KnownLocks::default(),
            server_clock: Mutex::default(),
            listening: Arc::default(),
            process: id,
            waiting: Mutex::default(),
            hearing: Hearing::default(),
            errands: Batches::default(),
            texts: Batches::default(),
            recalls: OnceLock::new(),
        };
        let engine = StoreEngine {
            core: Arc::new(core),
            started: clock.now(),
            server: "store".into(),
            connect_timeout: PATIENCE,
        };
        Process {
            habits,
            engine: Arc::new(engine),
            id,
            clock,
            rate,
            server: server.clone(),
            witness: witness.clone(),
        }
    }

    pub(crate) async fn call_on(self, mut rng: Rng) {
        loop {
            let kind = match rng.below(4) {
                0 => Use::Permits,
                1 => Use::Shared,
                _ => Use::Exclusive,
            };
            self.hold_once(&mut rng, kind).await;
            sleep(millis(&mut rng, self.habits.pause)).await;
        }
    }

    /// Takes the lock from a holder, from time to time.
    pub(crate) async fn force_on(self, mut rng: Rng) {
        loop {
            sleep(millis(&mut rng, 20_000)).await;
            let holders = self.server.record(LOCK).holders;
            let token = holders.iter().map(|it| it.token).next();
            if let Some(token) = token.filter(|_| self.habits.draw_numbers) {
                self.witness.is_forced(token);
                let name = token.encode(&mut [0; 37]).to_owned();
                while let deadline = deadline_in(PATIENCE)
                    && let Err(_) = self.engine.take(LOCK, &name, 0, deadline).await
                {
                }
                self.server.ends_for_good(token);
            }
        }
    }

    pub(crate) fn claim(&self, rng: &mut Rng, kind: Use) -> Claim {
        let limit = match kind {
            Use::Exclusive => Limit::EXCLUSIVE,
            Use::Permits => Limit::permits(2).unwrap(),
            Use::Shared => Limit::UNLIMITED,
        };
        Claim {
            name: LOCK.into(),
            token: Token::draw(self.id).with_limit(limit),
            ttl: Duration::from_millis(1500) + millis(rng, 4000),
            replicas: 0,
        }
    }

    /// Tries to get the lock, or waits for it, uses it, and releases it. Returns `true` if it had it.
    pub(crate) async fn hold_once(&self, rng: &mut Rng, kind: Use) -> bool {
        let claim = self.claim(rng, kind);
        let mut claims = vec![claim.clone()];
        let held = match rng.one_in(4) {
            true => self.try_once(claim).await,
            false => self.wait(rng, claim).await,
        };
        let has_held = held.is_some();
        if let Some(held) = held {
            match rng.one_in(3) {
                true => self.let_it_end(&held).await,
                false => claims = self.use_it(rng, held).await,
            }
        }
        // It forgets what it has.
        if self.server.is_faulty() && rng.one_in(10) {
            return has_held;
        }
        for claim in &claims {
            self.witness.relies_no_more(claim.token);
        }
        for claim in &claims {
            while let deadline = deadline_in(PATIENCE)
                && let Err(_) = self.engine.cancel(claim, true, deadline).await
            {}
            self.server.ends_for_good(claim.token);
        }
        has_held
    }

    async fn try_once(&self, claim: Claim) -> Option<Held> {
        let sent = self.clock.now();
        let tries = Command::Try(Want::of(&claim));
        let core = &self.engine.core;
        let reply = core.run(&claim.name, tries, Start::New, deadline_in(PATIENCE));
        let is_held = reply.await.is_ok_and(|reply| reply == Reply::Held);
        is_held.then(|| self.rely(&claim, sent, claim.ttl))?
    }

    async fn wait(&self, rng: &mut Rng, claim: Claim) -> Option<Held> {
        for _ in 0..1 + rng.below(400) {
            let sent = self.clock.now();
            let reply = self.engine.enqueue(&claim, None, deadline_in(PATIENCE));
            // Some callers leave before the reply.
            let patience = match rng.one_in(20) {
                true => millis(rng, 20),
                false => PATIENCE * 2,
            };
            match timeout(patience, reply).await.ok()? {
                Ok(EnqueueReply::Granted(left) | EnqueueReply::AlreadyHeld(left)) => {
                    let held = self.rely(&claim, sent, left);
                    if held.is_some() {
                        return held;
                    }
                }
                Ok(EnqueueReply::Queued(status)) => {
                    sleep(status.poll_in.unwrap_or_default()).await;
                }
                Ok(_) => return None,
                Err(_) => sleep(millis(rng, 300)).await,
            }
        }
        None
    }

    /// Relies on a lease from now on, unless it has ended.
    fn rely(&self, claim: &Claim, sent: Timestamp, ttl: Duration) -> Option<Held> {
        let lease = Lease::from_request(sent, ttl);
        let left = lease.remaining(self.clock.now());
        if left.is_zero() {
            return None;
        }
        let until = Instant::now() + left.div_f64(self.rate);
        self.witness.relies(claim.token, until);
        Some(Held {
            claim: claim.clone(),
            lease,
        })
    }

    fn left(&self, held: &Held) -> Duration {
        held.lease.remaining(self.clock.now()).div_f64(self.rate)
    }

    /// Relies on the lease to its end.
    async fn let_it_end(&self, held: &Held) {
        sleep(self.left(held)).await;
    }

    /// Returns the claims that may still be there.
    async fn use_it(&self, rng: &mut Rng, mut held: Held) -> Vec<Claim> {
        let mut claims = vec![held.claim.clone()];
        let end = Instant::now() + millis(rng, 6000);
        while Instant::now() < end && !self.left(&held).is_zero() {
            let claim = held.claim.clone();
            let sent = self.clock.now();
            let deadline = deadline_in(PATIENCE);
            match rng.below(8) {
                0 | 1 => {
                    let own = std::slice::from_ref(&claim);
                    let renewed = self.engine.renew(own, deadline).await;
                    match renewed.and_then(|renewed| renewed[0].clone()) {
                        Ok(true) => match self.rely(&claim, sent, claim.ttl) {
                            Some(renewed) => held = renewed,
                            None => break,
                        },
                        Ok(false) => break,
                        Err(_) => {}
                    }
                }
                2 if self.habits.draw_numbers => {
                    let before = self.witness.fence();
                    let number = self.engine.fencing_token(&claim, deadline).await;
                    if let Ok(Some(number)) = number {
                        self.witness.draws(number, before);
                    }
                }
                3 => self.transact(rng, &claim, deadline).await,
                4 if claim.token.limit().is_exclusive() => {
                    let to = Token::draw(self.id).with_limit(Limit::UNLIMITED);
                    let shared = Claim {
                        token: to,
                        ..claim.clone()
                    };
                    claims.push(shared.clone());
                    // Others may be in before the reply comes.
                    self.witness.shares(to, claim.token);
                    let shares = self.engine.downgrade(&claim, to, deadline).await;
                    let shares = shares.ok().flatten();
                    match shares.and_then(|left| self.rely(&shared, sent, left)) {
                        Some(shares) => held = shares,
                        None => break,
                    }
                }
                _ => sleep(millis(rng, 1500)).await,
            }
        }
        claims
    }

    /// Begins a transaction with a proof of the claim, which may last for longer than that.
    async fn transact(&self, rng: &mut Rng, claim: &Claim, deadline: Instant) {
        let claims = std::slice::from_ref(claim);
        let Ok(Some(proof)) = self.engine.prove(claims, deadline).await else {
            return;
        };
        let number = proof.statement().parse().unwrap();
        let (delay, lasts) = (millis(rng, 3000), millis(rng, 4000));
        let (server, witness, token) = (self.server.clone(), self.witness.clone(), claim.token);
        tokio::spawn(async move {
            sleep(delay).await;
            if server.begin(number) {
                witness.begins(token);
                sleep(lasts).await;
                witness.commits(token);
                server.commit(number);
            }
        });
    }
}
