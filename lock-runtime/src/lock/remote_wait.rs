//! Standing in the server's queue, one claim for a whole line.
//!
//! What the server tells is a hint: whoever waits also asks again from time to time, so that nothing
//! lost on the way costs more than that.

use crate::api::manager::Shared;
use crate::engine::error::{EngineError, Fault};
use crate::engine::request::{ALIVE, Claim, ServerTime, Standing, Waiting};
use crate::engine::retry::Retry;
use crate::engine::token::Token;
use crate::error::LockError;
use crate::lock::hold::Hold;
use crate::lock::lease::Lease;
use crate::lock::local_queue::Event;
use crate::util::backoff::{Backoff, fraction};
use crate::util::clock::Moment;
use crate::util::inbox::Inbox;
use crate::util::io_thread::{after, instant, pause, since, sleep_until, timeout_at};
use crate::util::panics::caught;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How soon, and then how often, the first in the queue asks again.
const FIRST: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(500)];
/// How often the two behind do, should the first have died.
const NEXT: Duration = Duration::from_secs(1);
/// How often the others do: the more stand before them, the more must have died for it to be their turn.
/// A row of *n* dead ones costs the next one 2 s + 0.2 s × *n* at most. Of that, 0.2 s is for those that are
/// woken to ask, and a turn for each of them.
const OTHERS: Duration = Duration::from_millis(1800);
const FOR_EACH: Duration = Duration::from_millis(150);
const SELDOM: Duration = Duration::from_secs(12);
/// How much later than the one before each of them does, when the holder's lease runs out.
const TURN: Duration = Duration::from_millis(50);

/// How long a line that has become empty is remembered as one that others wait for too.
const LINGER: Duration = Duration::from_millis(20);

/// Starts standing for a line, until nobody is left in it.
pub(crate) fn stand(shared: Arc<Shared>, name: Arc<str>) -> Arc<Inbox<Event>> {
    let events = Arc::new(Inbox::new());
    let stand_in = StandIn {
        shared: shared.clone(),
        name,
        events: events.clone(),
        claim: None,
    };
    shared.in_background(stand_in.run());
    events
}

struct StandIn {
    shared: Arc<Shared>,
    name: Arc<str>,
    events: Arc<Inbox<Event>>,
    /// What it stands for at the moment.
    claim: Option<Claim>,
}

/// How standing for a claim ended.
enum End {
    /// With that token.
    Granted(Token, Lease),
    /// Nobody is left who would want the lock. `unanswered`: a request may still be on its way.
    Left {
        unanswered: bool,
    },
    /// The claim can't be granted any more; another may.
    Void,
    Refused(EngineError),
}

impl StandIn {
    async fn run(mut self) {
        // Those in line are served on.
        while caught(self.serve()).await.is_err() {
            if let Some(claim) = self.claim.take() {
                self.shared.cancel_later(claim, true);
            }
            pause().await;
        }
    }

    async fn serve(&mut self) {
        loop {
            self.leave_it_to_the_holder().await;
            let shared = self.shared.clone();
            let Some(terms) = shared.waiters.first(&self.name) else {
                self.linger().await;
                if shared.waiters.leave_queue(&self.name) {
                    return;
                }
                continue;
            };
            let mut claim = Claim {
                name: self.name.clone(),
                token: Token::fresh(),
                ttl: terms.ttl,
                replicas: terms.replicas,
            };
            shared.waiters.expect(claim.token, self.events.clone());
            self.claim = Some(claim.clone());
            let end = self.stand_for(&claim).await;
            self.claim = None;
            match end {
                End::Granted(token, lease) => {
                    if token != claim.token {
                        shared.waiters.forget(claim.token);
                        claim.token = token;
                    }
                    let lease = match claim.replicas {
                        0 => Ok(lease),
                        // Boxed: few ask for replicas.
                        _ => Box::pin(self.acknowledge(&claim, lease)).await,
                    };
                    match lease {
                        Ok(lease) => self.take(&claim, lease),
                        Err(error) => Box::pin(self.give_back(&claim, error)).await,
                    }
                }
                End::Left { unanswered } => shared.cancel_later(claim, unanswered),
                End::Void => shared.waiters.forget(claim.token),
                End::Refused(error) => {
                    let error = shared.unavailable(&self.name, error);
                    shared.waiters.dismiss(&self.name, &error);
                    shared.cancel_later(claim, false);
                }
            }
            if shared.is_closed() {
                let key = shared.key_of(&self.name).into();
                let error = LockError::ShuttingDown { key };
                shared.waiters.dismiss(&self.name, &error);
            }
        }
    }

    /// While this process holds the lock, and nobody else is known to wait for it, the line may be
    /// served without the server for a moment.
    async fn leave_it_to_the_holder(&mut self) {
        let until = after(self.shared.hand_over.time);
        let waiters = &self.shared.waiters;
        while self.shared.hand_over.most > 0
            && waiters.is_held(&self.name)
            && waiters.others(&self.name) != Some(true)
            && !waiters.is_empty(&self.name)
            && !self.shared.is_closed()
        {
            if timeout_at(until, self.events.next()).await.is_err() {
                return;
            }
        }
    }

    /// Where others wait too, the next to come here goes straight to the queue, instead of trying in
    /// vain before.
    async fn linger(&mut self) {
        let until = after(LINGER);
        let waiters = &self.shared.waiters;
        while waiters.others(&self.name) == Some(true)
            && waiters.is_empty(&self.name)
            && !self.shared.is_closed()
        {
            if timeout_at(until, self.events.next()).await.is_err() {
                return;
            }
        }
    }

    async fn stand_for(&mut self, claim: &Claim) -> End {
        let shared = self.shared.clone();
        let (mut retry, mut answered) = (Retry::default(), instant());
        let mut first = Backoff::new(FIRST[0], FIRST[1]);
        let mut unanswered = false;
        let mut anchor: Option<(Moment, ServerTime)> = None;
        loop {
            if shared.waiters.is_empty(&self.name) || shared.is_closed() {
                return End::Left { unanswered };
            }
            let sent = shared.clock.now();
            let void_after = anchor.map(|(then, at)| ServerTime(at.0 + sent.since(then) + ALIVE));
            let until = after(shared.command_timeout);
            let standing = shared.engine.wait(claim, void_after, until).await;
            if let Ok(Standing::Adopted(left)) = standing {
                self.notice_a_missed_grant(claim, left);
            }
            let in_time = |left| {
                let lease = Lease::new(sent, left);
                let over = lease.remaining(shared.clock.now()).is_zero();
                (!over).then_some(lease)
            };
            let pause = match standing {
                Ok(Standing::Granted(left) | Standing::Adopted(left)) => match in_time(left) {
                    Some(lease) => return End::Granted(claim.token, lease),
                    None => Duration::ZERO,
                },
                Ok(Standing::Elected(token, left)) => {
                    if let Some(lease) = in_time(left) {
                        return End::Granted(token, lease);
                    }
                    let claim = claim.clone();
                    shared.release_later(Claim { token, ..claim }, false);
                    Duration::ZERO
                }
                Ok(Standing::Void) => return End::Void,
                Ok(Standing::Waiting(waiting)) => {
                    shared.waiters.learn(&self.name, Some(waiting.others), None);
                    unanswered = false;
                    anchor = Some((sent, waiting.at));
                    answered = instant();
                    until_asking_again(&waiting, &mut first)
                }
                Err(error) if error.is_transient() => {
                    unanswered |= error.fault == Fault::Unanswered;
                    let pause = retry.pause_after(&error);
                    shared.waiters.learn(&self.name, None, Some(error));
                    pause
                }
                // What the server answered before it may answer again.
                Err(error) if anchor.is_some() && since(answered) < shared.command_timeout => {
                    shared.waiters.learn(&self.name, None, Some(error.clone()));
                    retry.pause_after(&error)
                }
                Err(error) => return End::Refused(error),
            };
            if let Some(lease) = self.listen(claim, anchor, after(pause)).await {
                return End::Granted(claim.token, lease);
            }
        }
    }

    /// Listens until it is time to ask again, or the lock has been granted.
    async fn listen(
        &mut self,
        claim: &Claim,
        anchor: Option<(Moment, ServerTime)>,
        mut until: Instant,
    ) -> Option<Lease> {
        while let Ok(event) = timeout_at(until, self.events.next()).await {
            match event {
                Event::Granted(grant) if grant.token == claim.token => {
                    let now = self.shared.clock.now();
                    // Without an anchor nobody knows how long the news was on its way.
                    let (then, at) = anchor?;
                    let lease =
                        Lease::granted(now, then, grant.at.0.checked_sub(at.0)?, grant.lease);
                    return (!lease.remaining(now).is_zero()).then_some(lease);
                }
                Event::First(token) if token == claim.token => {
                    until = until.min(after(FIRST[0] / 2 + fraction(FIRST[0] / 2)));
                }
                Event::Granted(_) | Event::First(_) => {}
                Event::Others => self.shared.waiters.learn(&self.name, Some(true), None),
                Event::Look => return None,
            }
        }
        None
    }

    /// The lock was granted some time ago, and nobody told.
    fn notice_a_missed_grant(&mut self, claim: &Claim, left: Duration) {
        let granted_for = claim.ttl.min(crate::engine::request::GRANT);
        if granted_for.saturating_sub(left) > Duration::from_millis(300) {
            self.shared.engine.missed();
        }
    }

    /// Has replicas know of what was granted before anybody believes in it.
    async fn acknowledge(&self, claim: &Claim, lease: Lease) -> Result<Lease, EngineError> {
        let shared = &self.shared;
        let sent = shared.clock.now();
        let until = after(shared.command_timeout.min(lease.remaining(sent)));
        let renewed = shared.engine.renew(std::slice::from_ref(claim), until);
        let renewed = renewed.await?.pop().unwrap_or(Ok(false))?;
        // What counts is that it was known while it was still ours.
        match renewed && !lease.remaining(shared.clock.now()).is_zero() {
            true => Ok(Lease::new(sent, claim.ttl)),
            false => {
                let words = "the lock was lost before replicas had acknowledged it";
                Err(EngineError::new(Fault::Hindered, words))
            }
        }
    }

    /// Gives back what was granted and could not be acknowledged. It is asked for anew in a moment.
    async fn give_back(&self, claim: &Claim, error: EngineError) {
        let shared = &self.shared;
        shared.cancel(claim, false).await;
        if error.is_transient() {
            shared.waiters.learn(&self.name, None, Some(error));
            sleep_until(after(FIRST[0] + fraction(FIRST[0]))).await;
        } else {
            let error = shared.unavailable(&self.name, error);
            shared.waiters.dismiss(&self.name, &error);
        }
    }

    /// Gives what was granted to the first in line, or back.
    fn take(&self, claim: &Claim, lease: Lease) {
        let hold = std::cell::OnceCell::new();
        let seated = self.shared.waiters.seat_first(&self.name, |terms| {
            if terms.replicas > claim.replicas {
                return None;
            }
            let hold: &Arc<Hold> = hold.get_or_init(|| {
                Hold::new(self.shared.clone(), self.name.clone(), claim.token, terms)
            });
            hold.granted(terms, lease).then(|| hold.clone())
        });
        if !seated {
            match hold.get() {
                Some(hold) => hold.abandon(),
                None => self.shared.cancel_later(claim.clone(), false),
            }
        }
    }
}

/// The first asks often, so that a lock freed by somebody who knows nothing of queues is had soon. All
/// ask, one after the other, when the holder's lease runs out: those before them may be gone.
fn until_asking_again(waiting: &Waiting, first: &mut Backoff) -> Duration {
    let ahead = u32::try_from(waiting.ahead).unwrap_or(u32::MAX);
    let at_most = |beat: Duration| beat.mul_f64(0.9) + fraction(beat.mul_f64(0.1));
    let beat = match ahead {
        0 => first.pause(),
        1 | 2 => at_most(NEXT),
        _ => at_most(SELDOM.min(OTHERS.saturating_add(FOR_EACH.saturating_mul(ahead)))),
    };
    let expiry = waiting.holder_left + Duration::from_millis(2);
    beat.min(expiry.saturating_add(TURN.saturating_mul(ahead)))
}
