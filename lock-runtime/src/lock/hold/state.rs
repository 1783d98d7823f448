//! What changes of a hold: its phase, its lease, and what its guards have asked for.

use crate::config::HandoffLimits;
use crate::engine::lease::Lease;
use crate::engine::token::Token;
use crate::error::LostCause;
use crate::lock::lease::HeldLease;
use crate::lock::offer::OpenOffer;
use crate::lock::record::guards::GuardRecords;
use crate::util::clock::Timestamp;
use crate::util::time;
use std::time::Duration;
use tokio::time::Instant;

pub(super) struct State {
    pub(super) phase: Phase,
    pub(super) lease: HeldLease,
    /// The options of the current guard: whether the lease is renewed, and acknowledged by how many replicas.
    pub(super) renew: bool,
    pub(super) replicas: u32,
    /// The end of the current guard's time, independent of the lease. Boxed: few guards have one.
    pub(super) hard_limit: Option<Box<(Lease, LostCause)>>,
    /// When the next renewal is due: while one is in flight, if that succeeds.
    pub(super) renew_at: Option<Instant>,
    /// The instant for which the watchdog has scheduled the hold.
    pub(super) scheduled_at: Option<Instant>,
    /// How many times the hold was handed from guard to guard, or joined.
    pub(super) handoffs: u32,
    pub(super) held_since: Instant,
    /// When the current guard got it, or the first of several readers; while it is kept, when the last guard
    /// ended.
    pub(super) guard_since: Instant,
    /// The end of the longest `min_hold` of its guards so far.
    pub(super) retain_until: Option<Instant>,
    /// The fencing token of the guards that own the hold, once it is known.
    pub(super) fencing_token: Option<u64>,
    pub(super) reuse: Reuse,
    /// The current guard leaves the lock to this process.
    pub(super) is_lazy: bool,
    /// The token of the exclusive hold that this read hold has replaced.
    pub(super) replaces: Option<Token>,
    /// The guards that may not have been picked up yet.
    pub(super) offers: Vec<OpenOffer>,
    /// The records of the guards that own the hold, once their callers have received them.
    pub(super) records: GuardRecords,
}

/// What the process may do without a request when the guard ends.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Reuse {
    /// Nothing: a transaction may rely on the guard, and the server must know when another one comes.
    None,
    /// Hand the lock on to a waiter.
    HandOff,
    /// Keep it for the next call, too: in its tenure.
    Keep,
    /// It has done so: no caller has a guard.
    Kept,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Phase {
    Held,
    /// A read hold is about to replace this one, which is not renewed any more.
    Replaced,
    /// Its guards are asked to end it, since then. Until they do, their bodies may run, so its lease is
    /// renewed.
    Asked(std::time::Instant),
    Lost(LostCause, std::time::Instant),
    /// The last guard has ended. The server may not have released the lock yet.
    Ended,
}

impl Phase {
    /// Returns `true` if this process holds the lock.
    pub(super) fn is_held(self) -> bool {
        matches!(self, Phase::Held | Phase::Replaced | Phase::Asked(_))
    }

    pub(super) fn is_renewed(self) -> bool {
        matches!(self, Phase::Held | Phase::Asked(_))
    }

    /// Returns why no guard may rely on the lock any more, and since when.
    pub(super) fn loss(self) -> Option<(LostCause, std::time::Instant)> {
        match self {
            Phase::Asked(since) => Some((LostCause::Revoked, since)),
            Phase::Lost(cause, since) => Some((cause, since)),
            Phase::Held | Phase::Replaced | Phase::Ended => None,
        }
    }
}

impl State {
    /// Returns `true` if the limits allow one more hand-off although another process waits.
    pub(super) fn may_be_handed_off(&self, limits: HandoffLimits) -> bool {
        self.handoffs < limits.max_count && self.held_for() < limits.max_time
    }

    /// Returns for how long the lock has been held.
    pub(super) fn held_for(&self) -> Duration {
        time::elapsed_since(self.held_since)
    }

    /// Returns for how long the lock must stay held.
    pub(super) fn rest_of_min_hold(&self) -> Option<Duration> {
        let rest = self.retain_until?.saturating_duration_since(time::now());
        (!rest.is_zero()).then_some(rest)
    }

    pub(super) fn remaining(&self, now: Timestamp) -> Duration {
        let lease = self.lease.remaining(now);
        self.hard_limit
            .as_deref()
            .map_or(lease, |(limit, _)| limit.remaining(now).min(lease))
    }
}
