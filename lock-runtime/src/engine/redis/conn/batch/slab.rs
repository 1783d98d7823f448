//! The slots themselves: each is free, or belongs to a request until the request is decided.

use crate::engine::background_release::BackgroundRelease;
use crate::engine::redis::conn::batch::effects::Effects;
use crate::engine::redis::conn::request::{Delivery, Request};
use crate::engine::token::Token;
use redis::Value;
use std::mem::take;
use std::ops::{Index, IndexMut};
use std::task::Waker;
use tokio::time::Instant;

/// A burst of more requests than this leaves no memory behind.
const MAX_IDLE: usize = 1024;

#[derive(Default)]
pub(super) struct Slab {
    slots: Vec<Slot>,
    free: Vec<usize>,
}

#[derive(Default)]
pub(super) struct Slot {
    pub(super) request: Request,
    pub(super) delivery: Delivery,
    pub(super) state: State,
    pub(super) waiter: Waiter,
}

#[derive(Default)]
pub(super) enum State {
    #[default]
    Free,
    Unsent,
    Sent,
    Done(Outcome),
}

#[derive(Default)]
pub(super) enum Waiter {
    Caller {
        waker: Option<Waker>,
        deadline: Instant,
        expired: bool,
    },
    /// No caller awaits the reply to this release.
    Background(BackgroundRelease),
    /// The caller has left.
    #[default]
    None,
}

/// What became of a request.
#[derive(Debug, PartialEq)]
pub(crate) enum Outcome {
    /// The server's reply, with the token if the request was an acquisition.
    Reply(Value, Option<Token>),
    /// The connection ended before the request was written.
    NotSent,
    /// The connection ended, and the request may have been carried out.
    NoReply,
    /// No reply came by the deadline. The request may still be carried out.
    Expired,
}

impl Slab {
    /// Puts a request into a free slot, and returns the slot.
    pub(super) fn insert(&mut self, request: Request, delivery: Delivery, waiter: Waiter) -> usize {
        let at = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() - 1
        });
        let slot = &mut self.slots[at];
        slot.request = request;
        slot.delivery = delivery;
        slot.state = State::Unsent;
        slot.waiter = waiter;
        at
    }

    /// Frees a slot for the next request, and returns the state in which it was.
    pub(super) fn free(&mut self, at: usize) -> State {
        let slot = &mut self.slots[at];
        slot.request = Request::default();
        slot.waiter = Waiter::None;
        let state = take(&mut slot.state);
        self.free.push(at);
        if self.in_use() == 0 && self.slots.len() > MAX_IDLE {
            *self = Slab::default();
        }
        state
    }

    pub(super) fn in_use(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Slot> {
        self.slots.iter_mut()
    }

    /// Gives a request its reply. The slot is free if no caller takes the reply.
    pub(super) fn reply(&mut self, at: usize, reply: Value, effects: &mut Effects) {
        let slot = &mut self.slots[at];
        match take(&mut slot.waiter) {
            Waiter::Caller { waker, .. } => {
                effects.wakers.extend(waker);
                slot.state = State::Done(Outcome::Reply(reply, slot.request.token()));
            }
            Waiter::Background(release) => {
                self.free(at);
                effects.replied(release, &reply);
            }
            Waiter::None => {
                self.free(at);
            }
        }
    }

    /// Decides all requests, since the connection has ended.
    pub(super) fn end(&mut self, effects: &mut Effects) {
        // Freeing the last one may remove all slots.
        let mut at = 0;
        while let Some(slot) = self.slots.get_mut(at) {
            let outcome = match slot.state {
                State::Unsent => Some(Outcome::NotSent),
                State::Sent => Some(Outcome::NoReply),
                State::Free | State::Done(_) => None,
            };
            if let Some(outcome) = outcome {
                self.end_one(at, outcome, effects);
            }
            at += 1;
        }
    }

    fn end_one(&mut self, at: usize, outcome: Outcome, effects: &mut Effects) {
        let slot = &mut self.slots[at];
        match take(&mut slot.waiter) {
            Waiter::Caller { waker, .. } => {
                effects.wakers.extend(waker);
                slot.state = State::Done(outcome);
            }
            Waiter::Background(release) => {
                self.free(at);
                let may_have_run = outcome == Outcome::NoReply;
                effects.unconfirmed.push((release, may_have_run));
            }
            Waiter::None => {
                self.free(at);
            }
        }
    }
}

impl Index<usize> for Slab {
    type Output = Slot;

    fn index(&self, at: usize) -> &Slot {
        &self.slots[at]
    }
}

impl IndexMut<usize> for Slab {
    fn index_mut(&mut self, at: usize) -> &mut Slot {
        &mut self.slots[at]
    }
}
