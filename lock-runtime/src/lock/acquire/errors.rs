//! The errors of a call that does not get its lock.

use crate::engine::error::EngineError;
use crate::error::{Holder, LockError};
use crate::limit::Limit;
use crate::lock::acquire::Acquire;
use crate::lock::inner::ManagerInner;
use crate::lock::scope::OuterHold;
use crate::util::time::elapsed_since;
use std::time::Duration;

impl Acquire {
    /// Returns the error of a call while the lock is held, with who holds it as far as this process knows.
    pub(crate) fn busy(&self) -> LockError {
        let limit = self.options.limit;
        let outer = self.outer_hold();
        let is_in_the_way = |outer: &OuterHold| {
            let joins = self.options.reentrant && outer.covers(limit);
            !joins && outer.hold.check_lost().is_none()
        };
        LockError::Busy {
            holder: match outer.is_some_and(|outer| is_in_the_way(&outer)) {
                true => Holder::ThisTask,
                false => holder(&self.inner, &self.name, limit),
            },
            key: self.inner.context.key_of(&self.name).into(),
            waited: match self.wait.is_zero() {
                true => Duration::ZERO,
                false => elapsed_since(self.started),
            },
            waiting: None,
        }
    }

    pub(super) fn unavailable(&self, error: EngineError) -> LockError {
        self.inner.context.unavailable(&self.name, error)
    }
}

/// Returns who is in the way of a caller with that limit, as far as this process knows.
fn holder(inner: &ManagerInner, name: &str, limit: Limit) -> Holder {
    match inner.queues.holder(name, limit) {
        Holder::Process { id, .. } if id == inner.context.process => Holder::ThisProcess,
        Holder::Process { id, since, .. } => Holder::Process {
            id,
            since,
            info: inner.context.known.get(id),
        },
        holder => holder,
    }
}

/// Returns the error of a call that does not wait, since so many callers wait already.
pub(super) fn too_many(
    inner: &ManagerInner,
    name: &str,
    limit: Limit,
    waiting: usize,
) -> LockError {
    LockError::Busy {
        key: inner.context.key_of(name).into(),
        waited: Duration::ZERO,
        waiting: Some(u32::try_from(waiting).unwrap_or(u32::MAX)),
        holder: holder(inner, name, limit),
    }
}
