//! Waiting in the local queue, with a try before if the lock may be free.

use crate::error::LockError;
use crate::limit::Limit;
use crate::lock::acquire::Acquire;
use crate::lock::acquire::errors::too_many;
use crate::lock::acquire::read_try::ReadTry;
use crate::lock::acquire::tries::Tried;
use crate::lock::claim_events::ClaimEvent;
use crate::lock::handoff::HoldGuard;
use crate::lock::local_queue::keeping::Availability;
use crate::lock::local_queue::wait::{LocalWait, NotQueued, Place};
use crate::lock::record::wait::WaitRecord;
use crate::lock::remote_wait;
use crate::lock::reserved_place::ReservedPlace;
use crate::util::inbox::Inbox;
use crate::util::time::{deadline_in, now};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How long readers wait for the result of another reader's try. It may need more than they do, and its
/// caller may poll it late.
const READ_TRY: Duration = Duration::from_millis(50);

/// A call that has entered the local queue, or had no need to.
enum Entered {
    Acquired(HoldGuard),
    Waits(LocalWait<HoldGuard>),
}

impl Acquire {
    /// Acquires the lock, or waits until it is the call's turn. Returns `None` if the lock was not picked up
    /// in time, since the call was not polled.
    pub(super) async fn wait_for_turn(
        &self,
        has_tried: bool,
        deadline: Instant,
    ) -> Result<Option<HoldGuard>, LockError> {
        match self.enter(has_tried, deadline).await? {
            Entered::Acquired(guard) => Ok(Some(guard)),
            Entered::Waits(wait) => self.delivered(wait, deadline).await,
        }
    }

    /// Joins a hold, acquires a free lock, or enters the local queue.
    async fn enter(&self, has_tried: bool, deadline: Instant) -> Result<Entered, LockError> {
        let queues = &self.inner.queues;
        let limit = self.options.limit;
        let reads = limit == Limit::UNLIMITED;
        self.let_others_run().await;
        loop {
            if !has_tried && let Some(guard) = self.join() {
                return Ok(Entered::Acquired(guard));
            }
            let may_try = match queues.availability(&self.name, limit) {
                Availability::Free => !has_tried,
                Availability::Busy => false,
                Availability::Kept(kept) => match self.resume(kept).await {
                    Some(guard) => return Ok(Entered::Acquired(guard)),
                    None => continue,
                },
            };
            // Of several readers at a time one tries, and lets the others join its hold.
            let mut read_try = match may_try && reads {
                true => ReadTry::begin(&self.inner, &self.name),
                false => None,
            };
            let tries = may_try && (!reads || read_try.is_some());
            let mut reserved = None;
            if tries {
                match self.try_until_reply(None, deadline).await? {
                    Tried::Acquired(guard, _) => {
                        if let Some(read_try) = read_try {
                            read_try.succeed(guard.hold());
                        }
                        return Ok(Entered::Acquired(guard));
                    }
                    Tried::Held(place) => reserved = place,
                }
            }
            let place = match &mut read_try {
                Some(read_try) => {
                    read_try.reserved = reserved.take();
                    Place::Ticket(read_try.ticket)
                }
                None if reads && !has_tried => Place::BackUnlessFree,
                None => Place::Back,
            };
            let (times, waits) = ((place, deadline), (self.started, self.purpose.site));
            match queues.enqueue(&self.name, self.options, times, waits, self.start(reserved)) {
                Ok(wait) => return Ok(Entered::Waits(wait)),
                // Another reader's try, or a hold, was in the way, and has just ended.
                Err(NotQueued::MayTry) if now() < deadline => {}
                Err(NotQueued::MayTry) => return Err(self.busy()),
                Err(NotQueued::TooMany(waiting)) => {
                    return Err(too_many(&self.inner, &self.name, limit, waiting));
                }
            }
        }
    }

    /// Waits until the lock is delivered. Returns `None` if it was not picked up in time.
    async fn delivered(
        &self,
        mut wait: LocalWait<HoldGuard>,
        deadline: Instant,
    ) -> Result<Option<HoldGuard>, LockError> {
        let _waits = WaitRecord::begin(&self.inner.context, &self.name, &self.purpose);
        let (io, queues) = (&self.inner.context.io, &self.inner.queues);
        let limit = self.options.limit;
        let mut next = match wait.is_served() {
            true => deadline.min(deadline_in(READ_TRY)),
            false => deadline,
        };
        loop {
            if let Ok(delivered) = io.timeout_at(next, &mut wait).await {
                return delivered.transpose();
            }
            if next >= deadline {
                break;
            }
            queues.wait_without_try(&self.name, limit, self.start(None));
            next = deadline;
        }
        // Before the wait is dropped: an empty queue has no last error.
        match queues.last_error(&self.name, limit) {
            Some(error) => Err(self.unavailable(error)),
            None => Err(self.busy()),
        }
    }

    /// Returns a function that starts the task which waits in the server queue, with that place. If it is not
    /// called, another claim of this process waits, and the place is left.
    fn start(&self, reserved: Option<ReservedPlace>) -> impl FnOnce() -> Arc<Inbox<ClaimEvent>> {
        let limit = self.options.limit;
        move || remote_wait::spawn(&self.inner, self.name.clone(), limit, reserved)
    }
}
