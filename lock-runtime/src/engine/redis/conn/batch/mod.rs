//! The requests of one connection, from the submission to the reply: a state machine without I/O.
//!
//! A request has a slot. The driver takes the unsent requests to write them, and reports each reply, which
//! belongs to the oldest written request without one: a server replies in the order of the requests. A
//! caller may leave at any time; the slot of a written request is kept until its reply has come, so that no
//! later reply is taken for it.
//!
//! A caller that leaves a written acquisition may leave locks behind. [`Slots::leave`] returns its claims,
//! and releases put into the same slots are written behind the acquisition.

pub(crate) mod effects;
pub(crate) mod owed;
pub(crate) mod slab;
#[cfg(test)]
pub(crate) mod tests;

use crate::engine::background_release::BackgroundRelease;
use crate::engine::redis::conn::batch::effects::Effects;
use crate::engine::redis::conn::batch::owed::{OwedReplies, UnexpectedReply};
use crate::engine::redis::conn::batch::slab::{Outcome, Slab, State, Waiter};
use crate::engine::redis::conn::request::{Content, Delivery, Request};
use crate::engine::redis::wire::encode::Encoder;
use crate::engine::redis::wire::reply::granted;
use crate::engine::request::Claim;
use crate::engine::token::Draw;
use redis::Value;
use std::mem::{replace, swap, take};
use std::task::{Poll, Waker};
use std::time::Duration;
use tokio::time::Instant;

#[derive(Default)]
pub(crate) struct Slots {
    slots: Slab,
    /// The requests to be written, in the order in which they came.
    unsent: Vec<usize>,
    owed: OwedReplies,
    /// No request that is waited for has an earlier deadline.
    next_deadline: Option<Instant>,
    /// Since when the server has sent no reply, although a request has been written.
    silent_since: Option<Instant>,
    /// `true` once the driver has taken all unsent requests: the next one must wake it.
    driver_sleeps: bool,
    /// Wakes the driver; `None` once the connection has ended.
    pub(crate) driver: Option<Waker>,
    ended: bool,
    pub(crate) split_at: SplitThreshold,
}

/// From this number of requests on, an idle server first gets half of them.
pub(crate) struct SplitThreshold(pub(crate) usize);

impl Default for SplitThreshold {
    fn default() -> SplitThreshold {
        SplitThreshold(40)
    }
}

/// This number of requests is worth a write, even if other tasks are about to submit more.
const PORTION: usize = 12;

fn take_first(requests: &mut Vec<usize>, most: usize) -> Vec<usize> {
    match requests.len() <= most {
        true => take(requests),
        false => requests.drain(..most).collect(),
    }
}

impl Slots {
    /// Submits a request. Returns its slot, or `None` if the connection has ended.
    pub(crate) fn put(
        &mut self,
        request: Request,
        delivery: Delivery,
        deadline: Instant,
    ) -> Option<usize> {
        let earlier = self.next_deadline.is_none_or(|next| deadline < next);
        if earlier {
            self.next_deadline = Some(deadline);
        }
        let waiter = Waiter::Caller {
            waker: None,
            deadline,
            expired: false,
        };
        self.insert(request, delivery, waiter).ok()
    }

    /// Submits a release that no caller awaits. Returns it if the connection has ended.
    pub(crate) fn put_background(
        &mut self,
        release: BackgroundRelease,
    ) -> Result<(), BackgroundRelease> {
        let request = Content::Release(&release.claim).request();
        match self.insert(request, Delivery::default(), Waiter::Background(release)) {
            Err(Waiter::Background(release)) => Err(release),
            _ => Ok(()),
        }
    }

    fn insert(
        &mut self,
        request: Request,
        delivery: Delivery,
        waiter: Waiter,
    ) -> Result<usize, Waiter> {
        if self.ended {
            return Err(waiter);
        }
        let at = self.slots.insert(request, delivery, waiter);
        self.unsent.push(at);
        Ok(at)
    }

    /// Returns `true` if the driver has to be woken: for the first request since it slept, and for each
    /// portion.
    pub(crate) fn wakes_driver(&mut self) -> bool {
        let is_portion = self.unsent.len().is_multiple_of(PORTION) && self.has_unsent();
        replace(&mut self.driver_sleeps, false) || is_portion
    }

    /// Returns what became of a request, and frees its slot if the server has replied. Otherwise the caller
    /// still has to [`leave`](Self::leave). While nothing is decided, the waker takes the place of an earlier
    /// one, which is returned in it.
    pub(crate) fn poll(&mut self, at: usize, present: &mut Option<Waker>) -> Poll<Outcome> {
        let slot = &mut self.slots[at];
        match (&mut slot.state, &mut slot.waiter) {
            (State::Done(Outcome::Reply(..)), _) => match self.slots.free(at) {
                State::Done(outcome) => Poll::Ready(outcome),
                _ => Poll::Ready(Outcome::NoReply),
            },
            (State::Done(Outcome::NotSent), _) => Poll::Ready(Outcome::NotSent),
            (State::Done(_), _) => Poll::Ready(Outcome::NoReply),
            (_, Waiter::Caller { expired: true, .. }) => Poll::Ready(Outcome::Expired),
            (_, Waiter::Caller { waker, .. }) => {
                if present.is_some() {
                    swap(waker, present);
                }
                Poll::Pending
            }
            _ => Poll::Ready(Outcome::NoReply),
        }
    }

    /// Ends a caller's interest in its request. Returns the claims of an acquisition that may have been
    /// carried out, or still may be: they have to be released. Returns the caller's waker, too.
    pub(crate) fn leave(&mut self, at: usize) -> (Vec<Claim>, Option<Waker>) {
        let slot = &mut self.slots[at];
        let waker = match &mut slot.waiter {
            Waiter::Caller { waker, .. } => waker.take(),
            Waiter::Background(_) | Waiter::None => None,
        };
        let may_hold = match &slot.state {
            State::Free | State::Unsent | State::Done(Outcome::NotSent) => false,
            State::Done(Outcome::Reply(reply, _)) => granted(reply) > 0,
            State::Sent | State::Done(Outcome::NoReply | Outcome::Expired) => true,
        };
        let left = match may_hold {
            true => slot.request.claims(),
            false => Vec::new(),
        };
        match slot.state {
            State::Free => {}
            State::Sent => slot.waiter = Waiter::None,
            State::Unsent => {
                self.unsent.retain(|unsent| *unsent != at);
                self.slots.free(at);
            }
            State::Done(_) => {
                self.slots.free(at);
            }
        }
        (left, waker)
    }

    /// Returns `true` if there is anything to write.
    pub(crate) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Returns the number of acquisitions to be written, each of which needs a token.
    pub(crate) fn unsent_acquisitions(&self) -> usize {
        let requests = self.unsent.iter().map(|at| &self.slots[*at].request);
        requests.filter(|it| it.is_acquisition()).count()
    }

    /// Returns `true` if there is little to write, and other tasks are known to use the connection: some
    /// requests wait for their reply, or for their caller to take that.
    pub(crate) fn expects_more(&self) -> bool {
        let others = self.slots.in_use() - self.unsent.len();
        self.has_unsent() && self.unsent.len() < PORTION && others > 0
    }

    /// Returns `true` if a request is to be written, or waits for its reply.
    pub(crate) fn is_busy(&self) -> bool {
        self.has_unsent() || self.expects_reply()
    }

    /// Returns `true` if the server owes a reply.
    pub(crate) fn expects_reply(&self) -> bool {
        !self.owed.is_empty()
    }

    /// Writes the unsent requests: releases, acquisitions, then the others. `tokens` are at least
    /// [`unsent_acquisitions`](Self::unsent_acquisitions). If that was all, the next request has to wake the
    /// driver.
    ///
    /// Of many requests to an idle server, the first half are written, so that it executes them while the
    /// callers of the others are served: otherwise the two would take turns.
    pub(crate) fn write(
        &mut self,
        draws: impl IntoIterator<Item = Draw>,
        encoder: &mut impl Encoder,
        now: impl FnOnce() -> Instant,
    ) {
        // The driver sleeps once it has written all that there is.
        self.driver_sleeps = true;
        if self.unsent.is_empty() {
            return;
        }
        self.silent_since.get_or_insert_with(now);
        let all = self.unsent.len();
        let most = match self.owed.is_empty() && all >= self.split_at.0 {
            true => all.div_ceil(2),
            false => all,
        };
        let mut requests = take_first(&mut self.unsent, most);
        // What is released can be acquired by others.
        requests.sort_by_key(|at| self.slots[*at].request.place_in_write());
        let of_releases = |at: &usize| self.slots[*at].request.to_release().is_some();
        let (releases, others) = requests.split_at(requests.partition_point(of_releases));
        for at in releases {
            self.slots[*at].state = State::Sent;
        }
        let mut batch = Vec::new();
        for releases in releases.chunks(encoder.max_releases()) {
            batch.clear();
            let slots = || releases.iter().map(|at| &self.slots[*at]);
            if slots().any(|slot| slot.delivery.asking) {
                encoder.asking();
                self.owed.push_asking();
            }
            batch.extend(slots().filter_map(|slot| slot.request.to_release()));
            encoder.releases(&batch, slots().any(|slot| slot.delivery.with_source));
            self.owed.push_releases(releases);
        }
        let mut draws = draws.into_iter();
        let mut awaits_replicas = false;
        for at in others {
            let slot = &mut self.slots[*at];
            if slot.request.is_acquisition() {
                let Some(draw) = draws.next() else {
                    self.unsent.push(*at);
                    continue;
                };
                slot.request.set_token(draw);
            }
            awaits_replicas |= slot.delivery.awaits_replicas();
            self.write_one(*at, encoder);
        }
        if awaits_replicas {
            encoder.wait_for_replicas();
            self.owed.push_replicas();
        }
        self.driver_sleeps = self.unsent.is_empty();
    }

    fn write_one(&mut self, at: usize, encoder: &mut impl Encoder) {
        let slot = &mut self.slots[at];
        slot.state = State::Sent;
        let delivery = slot.delivery;
        if delivery.asking {
            encoder.asking();
            self.owed.push_asking();
        }
        match &slot.request {
            Request::Acquire {
                attempt,
                token: Some(token),
            } => encoder.acquisition(attempt, *token, delivery.with_source),
            Request::Command(command) => encoder.command(command),
            // Releases are written in batches, and no acquisition is written without its token.
            Request::Release { .. } | Request::Acquire { .. } | Request::None => {}
        }
        self.owed.push(at, delivery.awaits_replicas());
    }

    /// Takes the next reply of the server.
    pub(crate) fn take_reply(
        &mut self,
        reply: Value,
        now: Instant,
        effects: &mut Effects,
    ) -> Result<(), UnexpectedReply> {
        let (owed, slots) = (&mut self.owed, &mut self.slots);
        owed.take(reply, |at, reply| slots.reply(at, reply, effects))?;
        self.silent_since = self.expects_reply().then_some(now);
        Ok(())
    }

    /// Returns `true` if the deadline of a request has passed.
    pub(crate) fn is_overdue(&self, now: Instant) -> bool {
        self.next_deadline.is_some_and(|next| next <= now)
    }

    /// Wakes the callers whose deadline has passed. Returns `true` if any request is under way.
    pub(crate) fn expire(&mut self, now: Instant, effects: &mut Effects) -> bool {
        if self.is_overdue(now) {
            let mut next: Option<Instant> = None;
            for slot in self.slots.iter_mut() {
                if let (
                    State::Unsent | State::Sent,
                    Waiter::Caller {
                        waker,
                        deadline,
                        expired,
                    },
                ) = (&slot.state, &mut slot.waiter)
                {
                    if *deadline <= now {
                        *expired = true;
                        effects.wakers.extend(waker.take());
                    } else {
                        next = Some(next.map_or(*deadline, |next| next.min(*deadline)));
                    }
                }
            }
            self.next_deadline = next;
        }
        self.is_busy()
    }

    /// Returns for how long the server has sent no reply, although it owes one.
    pub(crate) fn silence(&self, now: Instant) -> Duration {
        let since = self.silent_since;
        since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    /// Ends the connection. Callers learn that they get no reply; releases that no caller awaits are handed
    /// over. Returns the driver's waker.
    pub(crate) fn end(&mut self, effects: &mut Effects) -> Option<Waker> {
        self.ended = true;
        self.unsent = Vec::new();
        self.owed = OwedReplies::default();
        self.silent_since = None;
        self.slots.end(effects);
        self.driver.take()
    }

    #[cfg(test)]
    pub(crate) fn in_use(&self) -> usize {
        self.slots.in_use()
    }

    #[cfg(test)]
    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }
}
