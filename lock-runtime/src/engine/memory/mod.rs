//! The embedded engine: locks within one process, for tests and first steps.

pub(crate) mod asks;
#[cfg(test)]
pub(crate) mod model_tests;
mod operations;
pub(crate) mod reports;
pub(crate) mod store;
pub(crate) mod take;
pub(crate) mod view;

use crate::engine::background_release::ReleaseSupervisor;
use crate::engine::error::EngineError;
use crate::engine::event::{EngineEvent, EventHandler};
use crate::engine::memory::store::{
    Holder, Owner, State, Store, Waiter, notify_front, wake_before,
};
use crate::engine::recall::Recall;
use crate::engine::request::{
    Acquired, Attempt, Claim, EngineFuture, EnqueueReply, QueueStatus, ServerTime,
};
use crate::engine::requests::{Requests, answer_operations};
use crate::engine::timeouts::{MAX_SILENCE, WAITER_TTL, WAKE_TTL};
use crate::engine::token::{Draw, Token};
use crate::engine::traits::Engine;
use crate::process::ProcessId;
use crate::util::clock::{Clock, Timestamp};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// One manager's access to a store.
pub(crate) struct MemoryEngine {
    store: Arc<Store>,
    handler: EventHandler,
    alone: bool,
}

impl MemoryEngine {
    pub(crate) fn new(store: Arc<Store>, handler: EventHandler) -> MemoryEngine {
        store.listeners.add(&handler);
        MemoryEngine {
            store,
            handler,
            alone: false,
        }
    }

    /// Opens the store of that name; without a name, a store that no other engine shares.
    pub(crate) fn open(name: &str, clock: Clock, handler: EventHandler) -> MemoryEngine {
        MemoryEngine {
            alone: name.is_empty(),
            ..MemoryEngine::new(Store::open(name, clock), handler)
        }
    }

    fn owner(&self, token: Token) -> Option<Owner> {
        Some((token, self.handler.clone()))
    }

    pub(crate) fn acquire(&self, claim: &Claim) -> bool {
        let (mut state, now) = self.store.lock();
        let (name, limit) = (&claim.name, claim.token.limit());
        let free = !state.is_found(name, now);
        // A newcomer passes no waiter.
        let beside = || !limit.is_exclusive() && !state.queues.contains_key(name);
        let fits = free || beside() && state.fits(name, limit, now);
        let acquires = fits && !state.is_reserved(name, now) && state.held_by(claim, now).is_none();
        if acquires {
            state.admit(name, self.owner(claim.token), claim.ttl, now);
        }
        acquires
    }

    async fn recall(
        &self,
        from: ProcessId,
        recalls: &[Recall],
        _: Instant,
    ) -> Result<(), EngineError> {
        for recall in recalls {
            if let Some(handler) = self.store.sole_owner(&recall.name, from) {
                handler(EngineEvent::Recalled(recall.clone()));
            }
        }
        Ok(())
    }

    fn enqueue(&self, claim: &Claim) -> EnqueueReply {
        let (mut state, now) = self.store.lock();
        let (name, limit) = (&claim.name, claim.token.limit());
        if state.taken.contains_key(&claim.token) {
            return EnqueueReply::Stale;
        }
        if let Some(held) = state.held_by(claim, now) {
            return EnqueueReply::AlreadyHeld(held.left(now));
        }
        let (is_free, is_reserved) = (
            state.holders(name, now).is_empty(),
            state.is_reserved(name, now),
        );
        let mut passes_in = None;
        if state.fits(name, limit, now) {
            if !is_reserved {
                passes_in = pass_silent(&mut state, claim, now)
                    .or_else(|| wake_fitting(&mut state, claim, now));
            }
            let first = state.queue(name).front();
            if first.is_none_or(|first| first.token == claim.token) {
                state.remove(claim);
                state.grant(name, self.owner(claim.token), claim.ttl, now);
                state.grant_next(name, now);
                return EnqueueReply::Granted(claim.ttl);
            }
            if is_free {
                state.grant(name, None, WAKE_TTL, now);
            }
        }
        let holder_ttl = time_in_the_way(&mut state, claim, now);
        let holder = state.holders(name, now).first().and_then(Holder::token);
        state.outlast_leases(name);
        let at = state.server_time(now);
        let queue = state.queue(name);
        let place = queue.iter().position(|waiter| waiter.token == claim.token);
        match place {
            Some(place) => (queue[place].last_seen, queue[place].patience) = (now, WAITER_TTL),
            None => queue.push_back(Waiter {
                token: claim.token,
                ttl: claim.ttl,
                last_seen: now,
                patience: WAITER_TTL,
                handler: self.handler.clone(),
            }),
        }
        if place.is_none()
            && let [other, _] = queue.make_contiguous()
        {
            (other.handler)(EngineEvent::MoreWaiters(other.token));
        }
        EnqueueReply::Queued(QueueStatus {
            server_time: at,
            holder_ttl: holder_ttl.min(passes_in.unwrap_or(holder_ttl)),
            position: place.unwrap_or(queue.len() - 1) as u64,
            has_others: queue.len() > 1,
            holder: holder.map(Token::holder).unwrap_or_default(),
            sole: holder,
            is_recalled: false,
            poll_in: None,
        })
    }

    fn cancel(&self, claim: &Claim) -> bool {
        let (mut state, now) = self.store.lock();
        let front_changed = state.remove(claim);
        let ours = state.vacate(claim, now);
        if !state.grant_next(&claim.name, now) && front_changed {
            notify_front(state.queue(&claim.name), now);
            state.forget_empty(&claim.name);
        }
        ours
    }

    pub(crate) fn release(&self, claim: &Claim) -> bool {
        let (mut state, now) = self.store.lock();
        let ours = state.vacate(claim, now);
        if !claim.token.limit().is_exclusive() || state.queues.contains_key(&claim.name) {
            state.grant_next(&claim.name, now);
        }
        ours
    }

    fn renew(&self, claim: &Claim) -> bool {
        let (mut state, now) = self.store.lock();
        let Some(held) = state.held_by(claim, now) else {
            return false;
        };
        held.since = now;
        held.ttl = claim.ttl;
        true
    }

    fn fencing_token(&self, claim: &Claim) -> Option<u64> {
        let (mut state, now) = self.store.lock();
        state.holders(&claim.name, now);
        state.held_by(claim, now)?;
        state.last_fencing_token += 1;
        Some(state.last_fencing_token)
    }

    fn downgrade(&self, claim: &Claim, to: Token) -> Option<Duration> {
        let (mut state, now) = self.store.lock();
        let shares = Claim {
            token: to,
            ..claim.clone()
        };
        state.holders(&claim.name, now);
        if let Some(held) = state.held_by(&shares, now) {
            return Some(held.left(now));
        }
        let ours = state.vacate(claim, now);
        ours.then(|| {
            state.grant(&claim.name, self.owner(to), claim.ttl, now);
            state.grant_next(&claim.name, now);
            claim.ttl
        })
    }
}

/// Wakes the waiters before the claim if the first of them may enter, too. Returns how long they have to
/// respond.
fn wake_fitting(state: &mut State, claim: &Claim, now: Timestamp) -> Option<Duration> {
    let first = state.queue(&claim.name).front().map(|first| first.token)?;
    (first != claim.token && state.fits(&claim.name, first.limit(), now)).then(|| {
        wake_before(state.queue(&claim.name), claim.token, now);
        WAKE_TTL
    })
}

/// Returns after which time the claim may enter if the waiters at the front, which cannot enter beside the
/// holders, are dead; `None` if there are none. If the first has been silent for too long, all ahead of the
/// claim are woken.
fn pass_silent(state: &mut State, claim: &Claim, now: Timestamp) -> Option<Duration> {
    while let Some(first) = state.queue(&claim.name).front().map(|first| first.token)
        && first != claim.token
        && !state.fits(&claim.name, first.limit(), now)
    {
        let queue = state.queue(&claim.name);
        let first = queue.front().filter(|first| first.is_alive(now));
        let Some(first) = first else {
            queue.pop_front();
            continue;
        };
        let silent = now.elapsed_since(first.last_seen);
        let alive = first.patience.saturating_sub(silent);
        let silent = WAITER_TTL.saturating_sub(alive);
        if silent < MAX_SILENCE {
            return Some(MAX_SILENCE - silent);
        }
        if alive > WAKE_TTL {
            wake_before(queue, claim.token, now);
        }
        return Some(WAKE_TTL);
    }
    None
}

/// Returns the time until a lease ends that keeps the claim from acquiring the lock: the last one, or among
/// those that share the lock like the claim, the first one.
fn time_in_the_way(state: &mut State, claim: &Claim, now: Timestamp) -> Duration {
    let held = state.holders(&claim.name, now).iter();
    let shared = |holder: &Holder| holder.token().is_some_and(|it| !it.limit().is_exclusive());
    let all_share = held.clone().all(shared) && !claim.token.limit().is_exclusive();
    let ends = held.map(|holder| holder.left(now));
    let end = if all_share { ends.min() } else { ends.max() };
    end.unwrap_or_default()
}

fn ready<'a, T: Send + 'a>(reply: T) -> EngineFuture<'a, T> {
    Box::pin(std::future::ready(Ok(reply)))
}

impl Requests for MemoryEngine {
    fn acquire<'a>(
        &'a self,
        attempt: &'a Attempt,
        _: &'a Arc<dyn ReleaseSupervisor>,
        _: Instant,
    ) -> EngineFuture<'a, Option<Acquired>> {
        let token = attempt.token(Draw::now());
        let mut claims = attempt.claims(token);
        let count = claims.position(|claim| !self.acquire(&claim));
        let count = count.unwrap_or(attempt.names().count());
        ready((count > 0).then_some(Acquired::Locks { token, count }))
    }

    // Requests are carried out at once, so none can be late.
    fn enqueue<'a>(
        &'a self,
        claim: &'a Claim,
        _: Option<ServerTime>,
        _: Instant,
    ) -> EngineFuture<'a, EnqueueReply> {
        ready(self.enqueue(claim))
    }

    fn cancel<'a>(&'a self, claim: &'a Claim, _: bool, _: Instant) -> EngineFuture<'a, bool> {
        ready(self.cancel(claim))
    }

    fn release<'a>(&'a self, claim: &'a Claim, _: Instant) -> EngineFuture<'a, bool> {
        ready(self.release(claim))
    }

    fn renew<'a>(
        &'a self,
        claims: &'a [Claim],
        _: Instant,
    ) -> EngineFuture<'a, Vec<Result<bool, EngineError>>> {
        ready(claims.iter().map(|claim| Ok(self.renew(claim))).collect())
    }

    fn fencing_token<'a>(&'a self, claim: &'a Claim, _: Instant) -> EngineFuture<'a, Option<u64>> {
        ready(self.fencing_token(claim))
    }

    fn downgrade<'a>(
        &'a self,
        claim: &'a Claim,
        to: Token,
        _: Instant,
    ) -> EngineFuture<'a, Option<Duration>> {
        ready(self.downgrade(claim, to))
    }
}

answer_operations! { MemoryEngine: own[ping views names report reports ask recall take] }

impl Engine for MemoryEngine {
    fn in_one_request(&self, _name: &str, _other: &str) -> bool {
        true
    }

    fn is_alone(&self) -> bool {
        self.alone
    }

    fn hears_recalls(&self, _: &str) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::timeouts::GRANT_TTL;
    use crate::engine::token::Token;
    use std::sync::mpsc;

    fn memory(store: &Arc<Store>) -> (MemoryEngine, mpsc::Receiver<EngineEvent>) {
        let (sender, news) = mpsc::channel();
        let handler: EventHandler = Arc::new(move |event| drop(sender.send(event)));
        (MemoryEngine::new(store.clone(), handler), news)
    }

    fn alone() -> MemoryEngine {
        memory(&Store::open("", Clock::System)).0
    }

    fn claim(name: &str) -> Claim {
        Claim {
            replicas: 0,
            name: name.into(),
            token: Token::random(),
            ttl: Duration::from_secs(30),
        }
    }

    fn waits(standing: &EnqueueReply) -> bool {
        matches!(standing, EnqueueReply::Queued(_))
    }

    #[test]
    fn a_held_lock_is_not_acquired_again_until_it_is_released() {
        let memory = alone();
        let (first, second) = (claim("a"), claim("a"));
        assert!(memory.acquire(&first));
        assert!(!memory.acquire(&second));
        assert!(!memory.release(&second));
        assert!(memory.release(&first));
        assert!(!memory.release(&first));
        assert!(memory.acquire(&second));
    }

    #[test]
    fn an_expired_lease_has_no_holder() {
        let clock = Clock::manual();
        let (memory, _news) = memory(&Store::with_clock(clock.clone()));
        let (first, second) = (claim("a"), claim("a"));
        assert!(memory.acquire(&first));
        clock.advance(Duration::from_secs(29), Duration::from_secs(29));
        assert!(memory.renew(&first));
        clock.advance(Duration::from_secs(30), Duration::from_secs(30));
        assert!(!memory.renew(&first));
        assert_eq!(memory.fencing_token(&first), None);
        assert!(memory.acquire(&second));
    }

    #[test]
    fn a_released_lock_goes_to_the_first_waiter() {
        let store = Store::open("", Clock::System);
        let (one, news_of_one) = memory(&store);
        let (two, news_of_two) = memory(&store);
        let (holder, first, second) = (claim("a"), claim("a"), claim("a"));
        assert!(one.acquire(&holder));
        assert!(waits(&two.enqueue(&first)));
        assert!(waits(&one.enqueue(&second)));
        assert!(
            matches!(news_of_two.try_recv(), Ok(EngineEvent::MoreWaiters(token)) if token == first.token)
        );
        assert!(
            waits(&two.enqueue(&first)),
            "polling again keeps the position"
        );
        assert!(one.release(&holder));
        assert!(
            !one.acquire(&holder),
            "it was granted to the waiter, and never free"
        );
        let Ok(EngineEvent::Granted(grant)) = news_of_two.try_recv() else {
            panic!("the first waiter is notified");
        };
        assert_eq!((grant.token, grant.lease), (first.token, GRANT_TTL));
        assert!(
            matches!(news_of_one.try_recv(), Ok(EngineEvent::AtFront(token)) if token == second.token)
        );
        assert!(two.cancel(&first));
        assert!(matches!(
            news_of_one.try_recv(),
            Ok(EngineEvent::Granted(_))
        ));
        assert!(one.release(&second));
        let (state, _) = store.lock();
        assert!(state.queues.is_empty() && state.held.is_empty());
    }

    #[test]
    fn a_dead_waiter_is_skipped() {
        let clock = Clock::manual();
        let (memory, news) = memory(&Store::with_clock(clock.clone()));
        let (holder, dead, alive) = (claim("a"), claim("a"), claim("a"));
        assert!(memory.acquire(&holder));
        assert!(waits(&memory.enqueue(&dead)));
        assert!(waits(&memory.enqueue(&alive)));
        clock.advance(WAITER_TTL, WAITER_TTL);
        assert!(memory.renew(&holder));
        assert!(waits(&memory.enqueue(&alive)));
        clock.advance(Duration::from_secs(1), Duration::ZERO);
        assert!(memory.release(&holder));
        let granted = news.try_iter().find_map(|news| match news {
            EngineEvent::Granted(grant) => Some(grant.token),
            _ => None,
        });
        assert_eq!(granted, Some(alive.token));
    }

    #[test]
    fn fencing_tokens_increase_across_keys() {
        let memory = alone();
        let (a, b) = (claim("a"), claim("b"));
        assert!(memory.acquire(&a) && memory.acquire(&b));
        let first = memory.fencing_token(&a).unwrap();
        assert!(memory.fencing_token(&b).unwrap() > first);
    }

    #[test]
    fn a_named_store_is_shared_and_an_unnamed_one_is_not() {
        let (one, _) = memory(&Store::open("shared", Clock::System));
        let (two, _) = memory(&Store::open("shared", Clock::System));
        assert!(one.acquire(&claim("a")));
        assert!(!two.acquire(&claim("a")));
        assert!(alone().acquire(&claim("a")));
    }
}
