//! Hands a lock to the next local waiter, or releases it. The guards of a read hold may be several; the last
//! one does it.

use crate::engine::request::Claim;
use crate::engine::timeouts::GRANT_TTL;
use crate::engine::token::Token;
use crate::error::LockError;
use crate::limit::Limit;
use crate::lock::hold::{End, Hold, HoldTable};
use crate::lock::local_holds::Kept;
use crate::lock::local_lock::Waiter;
use crate::lock::local_queue::LocalQueues;
use crate::lock::local_queue::keeping::Next;
use crate::lock::record::guard::{GuardRecord, Source};
use crate::lock::record::kept::KeptRecord;
use crate::options::LockOptions;
use crate::util::sync::AtomicBool;
use crate::util::thread_end::Use;
use crate::util::time::now;
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::Notify;

/// What a process has, and what its callers wait for.
pub(crate) type Table = Arc<LocalQueues<HoldGuard>>;

/// The obligation to end a hold, which the guards of a read hold share. Dropping the last one hands the lock
/// to the next local waiter, or releases it in the background.
pub(crate) struct HoldGuard {
    hold: Arc<Hold>,
    queues: Table,
    /// Another guard owns the hold, or the server stores nothing of it any more.
    disarmed: AtomicBool,
    source: Source,
    /// What reports a loss, once the caller has received the guard.
    record: Option<Arc<GuardRecord>>,
    /// The turn of a guard that has joined the hold of the body in which it was acquired. It has no type
    /// here: a guard of a mutex in every `LockGuard` would make clippy warn about users' functions.
    turn: Option<Turn>,
}

/// The turn of a nested call, until it is dropped.
pub(crate) struct Turn {
    _guard: Box<dyn Any + Send + Sync>,
}

impl Turn {
    pub(crate) fn new(guard: impl Any + Send + Sync) -> Turn {
        Turn {
            _guard: Box::new(guard),
        }
    }
}

impl HoldGuard {
    pub(crate) fn new(hold: Arc<Hold>, queues: Table) -> HoldGuard {
        HoldGuard {
            hold,
            queues,
            disarmed: AtomicBool::new(false),
            source: Source::Server,
            record: None,
            turn: None,
        }
    }

    /// Returns the guard of a reader that has joined the hold.
    pub(crate) fn joined(hold: Arc<Hold>, queues: Table) -> HoldGuard {
        let mut guard = HoldGuard::new(hold, queues);
        guard.source = Source::Guard;
        guard
    }

    /// Keeps that turn until the guard ends.
    pub(crate) fn with_turn(mut self, turn: Turn) -> HoldGuard {
        self.turn = Some(turn);
        self
    }

    pub(crate) fn source(&self) -> Source {
        self.source
    }

    /// Reports a loss of the lock by that record, until the guard ends.
    pub(crate) fn report_loss_by(&mut self, record: &Arc<GuardRecord>) {
        self.record = Some(record.clone());
        self.hold.report_loss_by(record);
    }

    pub(crate) fn hold(&self) -> &Arc<Hold> {
        &self.hold
    }

    pub(crate) fn queues(&self) -> &Table {
        &self.queues
    }

    /// Cancels the obligation to end the hold.
    pub(crate) fn disarm(&self) {
        self.disarmed.store(true, Ordering::Release);
    }

    pub(crate) fn is_disarmed(&self) -> bool {
        self.disarmed.load(Ordering::Acquire)
    }

    /// Gives a kept lock to a caller with these options, without a request. Returns its guard; as an error,
    /// if that is not possible: then the lock is to be released.
    pub(crate) fn resume(
        kept: Kept,
        queues: &Table,
        options: LockOptions,
    ) -> Result<HoldGuard, HoldGuard> {
        let resumes = kept.hold.try_resume(options);
        let mut guard = HoldGuard::new(kept.hold, queues.clone());
        guard.source = Source::Kept;
        if resumes { Ok(guard) } else { Err(guard) }
    }

    /// Hands the lock to the next local waiter, or releases it and returns the result.
    pub(crate) async fn release_or_hand_off(&self) -> Result<(), LockError> {
        if self.is_disarmed() {
            return Ok(());
        }
        if !self.hold.leave(self.record.as_ref()) {
            self.disarm();
            return self.hold.check_lost().map_or(Ok(()), Err);
        }
        // If this future is dropped, the release continues in the background.
        let unfinished = UnfinishedRelease(self);
        if hand_off(&self.queues, &self.hold) {
            self.disarm();
            return Ok(());
        }
        let released = self.hold.release().await;
        if !matches!(released, Err(LockError::Unavailable { .. })) {
            self.disarm();
        }
        drop(unfinished);
        released
    }

    /// Hands the lock to the next local waiter, or releases it in the background.
    pub(crate) fn end_in_background(&self) {
        if self.is_disarmed() {
            return;
        }
        self.disarm();
        if self.hold.leave(self.record.as_ref()) && !hand_off(&self.queues, &self.hold) {
            self.hold.release_in_background();
        }
    }
}

impl Drop for HoldGuard {
    fn drop(&mut self) {
        self.end_in_background();
    }
}

/// The release of a hold that no guard owns any more. Unless the guard is disarmed, dropping it releases the
/// lock in the background.
struct UnfinishedRelease<'a>(&'a HoldGuard);

impl Drop for UnfinishedRelease<'_> {
    fn drop(&mut self) {
        if !self.0.is_disarmed() {
            self.0.disarm();
            self.0.hold.release_in_background();
        }
    }
}

impl HoldTable for Table {
    fn add(&self, hold: &Arc<Hold>) -> bool {
        LocalQueues::add(self, hold)
    }

    fn retain(&self, claim: &Claim) -> Arc<Notify> {
        LocalQueues::retain(self, claim)
    }

    fn end(&self, name: &Arc<str>, token: Token, end: End) {
        give_back(self, LocalQueues::end(self, name, token, end));
    }

    fn end_keeping(&self, name: &Arc<str>, token: Token) {
        give_back(self, self.take_kept_with(name, token));
    }
}

impl Use for LocalQueues<HoldGuard> {
    /// The holds are a use of their own.
    fn is_over(&self) -> bool {
        true
    }

    fn end_idle(self: Arc<Self>) {
        give_back(&self, self.stop_keeping());
    }
}

/// Gives kept locks back. Call it when no mutex is locked.
pub(crate) fn give_back(queues: &Table, kept: impl IntoIterator<Item = Kept>) {
    for kept in kept {
        drop(HoldGuard::new(kept.hold, queues.clone()));
    }
}

/// Hands a held lock to the local waiter at the front, if the limits allow it, or keeps it for the next call.
/// Returns `false` if neither is possible: then this process no longer counts as its holder.
fn hand_off(queues: &Table, hold: &Arc<Hold>) -> bool {
    let alone = hold.context().engine.is_alone();
    let may_take = |options, remote_waiters| {
        let remote_waiters = if alone { Some(false) } else { remote_waiters };
        hold.try_reassign(options, remote_waiters)
    };
    let mut kept = None;
    // Before the mutex: all of this may call the user's code.
    if hold.token().is_recallable() && hold.context().engine.hears_recalls(&hold.name) {
        hold.end_records();
        kept = Some(KeptRecord::begin());
    }
    let mut keep = || kept.take_if(|_| hold.keep());
    loop {
        match queues.next(&hold.name, hold.token(), may_take, &mut keep) {
            Next::Waiter(waiter) => {
                if deliver_to_all(queues, waiter, hold, Source::Guard) {
                    return true;
                }
            }
            Next::Kept => return true,
            Next::Released { recalled } => {
                if let Some(time) = recalled.then(|| hold.back_off()).flatten() {
                    queues.recalls.back_off(&hold.name, time);
                }
                return false;
            }
        }
    }
}

/// Delivers a lock that the server has just granted to the local waiter at the front with that limit.
/// `activate` returns its hold, or `None` if the lock does not fit that waiter's options. Returns `false` if
/// no waiter took it.
pub(crate) fn grant_to_front(
    queues: &Table,
    (name, limit): (&str, Limit),
    mut activate: impl FnMut(LockOptions) -> Option<Arc<Hold>>,
) -> bool {
    loop {
        let Some(waiter) = queues.pop_front(name, limit) else {
            return false;
        };
        let Some(hold) = activate(waiter.options()) else {
            queues.push_front(name, waiter);
            return false;
        };
        if deliver_to_all(queues, waiter, &hold, Source::Server) {
            return true;
        }
    }
}

/// Delivers a hold to a waiter, and a read hold to the readers behind it, too. Returns `false` if no guard
/// owns the hold.
fn deliver_to_all(
    queues: &Table,
    waiter: Waiter<HoldGuard>,
    hold: &Arc<Hold>,
    source: Source,
) -> bool {
    let mut readers = Vec::new();
    if hold.limit() == Limit::UNLIMITED {
        // The readers join before the first delivery: a reader that calls after it may come after a writer of
        // another process.
        let may_join = |options, _| hold.try_join(options);
        while let Some(reader) = queues.pop_front_if(&hold.name, Limit::UNLIMITED, may_join) {
            readers.push(reader);
        }
    }
    let delivered = deliver(queues, waiter, hold, source);
    deliver_joined(queues, readers, hold);
    delivered
}

/// Delivers a read hold to readers that have joined it.
pub(crate) fn deliver_joined(queues: &Table, readers: Vec<Waiter<HoldGuard>>, hold: &Arc<Hold>) {
    for reader in readers {
        // A guard that is not delivered leaves the hold.
        let guard = HoldGuard::joined(hold.clone(), queues.clone());
        drop(offer(reader, guard));
    }
}

/// Delivers a hold to a waiter. Returns `false` if the waiter no longer waits, and no guard owns the hold.
fn deliver(queues: &Table, waiter: Waiter<HoldGuard>, hold: &Arc<Hold>, source: Source) -> bool {
    let mut guard = HoldGuard::new(hold.clone(), queues.clone());
    guard.source = source;
    match offer(waiter, guard) {
        Some(guard) => {
            guard.disarm();
            // Readers may have joined it meanwhile, and own it then.
            !hold.leave(None)
        }
        None => true,
    }
}

/// Offers a guard to a waiter, which must pick it up as soon as the holder of a grant must renew it, and by
/// its own deadline. Returns the guard if the waiter no longer waits.
fn offer(waiter: Waiter<HoldGuard>, guard: HoldGuard) -> Option<HoldGuard> {
    let now = now();
    if waiter.deadline <= now {
        return Some(guard);
    }
    let until = waiter.deadline.min(now + GRANT_TTL);
    guard.hold.withdraw_at(until, waiter.offered());
    waiter.deliver(Ok(guard))
}
