//! The try of one reader, whose result serves the readers that wait for it.

use crate::limit::Limit;
use crate::lock::acquire::errors::too_many;
use crate::lock::handoff::deliver_joined;
use crate::lock::hold::Hold;
use crate::lock::inner::ManagerInner;
use crate::lock::remote_wait;
use crate::lock::reserved_place::ReservedPlace;
use std::sync::Arc;

/// Dropping it ends the try without success.
pub(super) struct ReadTry<'a> {
    inner: &'a Arc<ManagerInner>,
    name: &'a Arc<str>,
    pub(super) ticket: u64,
    /// The place with which the reader waits after its try.
    pub(super) reserved: Option<ReservedPlace>,
    ended: bool,
}

impl<'a> ReadTry<'a> {
    /// Returns `None` if another reader tries already.
    pub(super) fn begin(inner: &'a Arc<ManagerInner>, name: &'a Arc<str>) -> Option<ReadTry<'a>> {
        let ticket = inner.queues.begin_read_try(name)?;
        Some(ReadTry {
            inner,
            name,
            ticket,
            reserved: None,
            ended: false,
        })
    }

    pub(super) fn succeed(mut self, hold: &Arc<Hold>) {
        self.end(Some(hold));
    }

    /// Ends the try: the readers that wait for its result join that hold, or wait for the server.
    fn end(&mut self, hold: Option<&Arc<Hold>>) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        let (inner, name) = (self.inner, self.name);
        let may_join = |options| hold.is_some_and(|hold| hold.try_join(options));
        let (limit, reserved) = (Limit::UNLIMITED, self.reserved.take());
        let start = || remote_wait::spawn(inner, name.clone(), limit, reserved);
        let followers = inner
            .queues
            .end_read_try(name, hold.is_some(), may_join, start);
        if let Some(hold) = hold {
            deliver_joined(&inner.queues, followers.joined, hold);
        }
        for (waiter, waiting) in followers.refused {
            let refused = too_many(inner, name, Limit::UNLIMITED, waiting);
            waiter.deliver(Err(refused));
        }
    }
}

impl Drop for ReadTry<'_> {
    fn drop(&mut self) {
        self.end(None);
    }
}
