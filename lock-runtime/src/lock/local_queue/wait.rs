//! Entering a local queue, waiting there, and leaving it.

use crate::error::LockError;
use crate::limit::Limit;
use crate::lock::claim_events::ClaimEvent;
use crate::lock::local_lock::{LocalLock, Waiter, Waits};
use crate::lock::local_queue::LocalQueues;
use crate::lock::offer::{Pickup, offer};
use crate::options::LockOptions;
use crate::util::inbox::Inbox;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use tokio::time::Instant;

/// The place of a waiter.
#[derive(Clone, Copy)]
pub(crate) enum Place {
    Back,
    /// At the back, unless the caller, which has not tried yet, may try.
    BackUnlessFree,
    /// That of a ticket drawn before.
    Ticket(u64),
}

/// Why a caller was not added to the queue.
#[derive(Debug)]
pub(crate) enum NotQueued {
    /// As many callers wait as the options of the call allow, or more.
    TooMany(usize),
    /// The caller tries first: the server may grant the lock at once.
    MayTry,
}

/// The wait of one caller. It resolves to the delivered result, or to `None` if the caller did not pick it up
/// in time. Dropping it leaves the queue.
pub(crate) struct LocalWait<T> {
    queues: Arc<LocalQueues<T>>,
    name: Arc<str>,
    limit: Limit,
    ticket: u64,
    /// `true` if another reader's try may serve this caller.
    is_served: bool,
    pickup: Pickup<Result<T, LockError>>,
}

impl<T> LocalQueues<T> {
    /// Adds a waiter, which waits until `deadline`. `start` starts the task that waits in the server queue,
    /// if there is none yet.
    pub(crate) fn enqueue(
        self: &Arc<Self>,
        name: &Arc<str>,
        options: LockOptions,
        (place, deadline): (Place, Instant),
        waits: Waits,
        start: impl FnOnce() -> Arc<Inbox<ClaimEvent>>,
    ) -> Result<LocalWait<T>, NotQueued> {
        let (offerer, pickup) = offer();
        let mut locks = self.locked();
        let lock = locks.entry(name.clone()).or_default();
        let is_served = lock.read_try && options.limit == Limit::UNLIMITED;
        if let Some(refused) = refusal(lock, options, place, is_served) {
            if lock.is_unused() {
                locks.remove(name);
            }
            return Err(refused);
        }
        // Unique across queues: a ticket of a queue that was removed matches no waiter of its successor.
        let ticket = match place {
            Place::Back | Place::BackUnlessFree => self.next_ticket.fetch_add(1, Ordering::Relaxed),
            Place::Ticket(ticket) => ticket,
        };
        let queue = lock.queue_or_insert(options.limit);
        queue.insert(Waiter {
            ticket,
            options,
            deadline,
            waits,
            offerer,
        });
        if queue.remote_wait.is_none() {
            if !is_served {
                queue.remote_wait = Some(start());
            }
        } else if queue.waiters.len() == 1 {
            queue.wake();
        }
        drop(locks);
        self.report_change();
        Ok(LocalWait {
            queues: self.clone(),
            name: name.clone(),
            limit: options.limit,
            ticket,
            is_served,
            pickup,
        })
    }

    /// Starts the task that waits in the server queue, if callers wait without one, for the result of another
    /// reader's try.
    pub(crate) fn wait_without_try(
        &self,
        name: &str,
        limit: Limit,
        start: impl FnOnce() -> Arc<Inbox<ClaimEvent>>,
    ) {
        self.with(name, limit, |queue| {
            if queue.remote_wait.is_none() && !queue.waiters.is_empty() {
                queue.remote_wait = Some(start());
            }
        });
    }

    fn remove(&self, name: &str, limit: Limit, ticket: u64) -> Option<Waiter<T>> {
        let mut locks = self.locked();
        let lock = locks.get_mut(name)?;
        let queue = lock.queue(limit)?;
        let removed = queue.remove(ticket)?;
        queue.settle();
        if queue.waiters.is_empty() && queue.remote_wait.is_none() {
            lock.remove_queue(limit);
        }
        Some(removed)
    }
}

/// Returns why the caller can't wait. `is_served`: another reader's try may serve it.
fn refusal<T>(
    lock: &LocalLock<T>,
    options: LockOptions,
    place: Place,
    is_served: bool,
) -> Option<NotQueued> {
    let waiting = lock.waiting();
    match place {
        // It has just become so, and whoever waits beside it is not served.
        _ if lock.holds.are_kept() => Some(NotQueued::MayTry),
        // A reader that follows a try may acquire a free lock at once.
        _ if is_served => None,
        Place::BackUnlessFree if lock.may_try(options.limit) => Some(NotQueued::MayTry),
        _ if options.max_waiters.is_some_and(|most| waiting >= most) => {
            Some(NotQueued::TooMany(waiting))
        }
        _ => None,
    }
}

impl<T> LocalWait<T> {
    pub(crate) fn is_served(&self) -> bool {
        self.is_served
    }
}

impl<T> Future for LocalWait<T> {
    type Output = Option<Result<T, LockError>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.pickup).poll(context)
    }
}

impl<T> Drop for LocalWait<T> {
    fn drop(&mut self) {
        let removed = self.queues.remove(&self.name, self.limit, self.ticket);
        // Drop outside the mutex: this wakes the caller.
        drop(removed);
    }
}
