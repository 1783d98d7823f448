//! Turns an exclusive hold into one that readers share.

use crate::engine::request::Claim;
use crate::error::LockError;
use crate::limit::Limit;
use crate::lock::context::Effort;
use crate::lock::handoff::HoldGuard;
use crate::lock::hold::Hold;
use crate::util::sync::Mutex;
use crate::util::time;
use std::sync::Arc;

/// Replaces the guard of an exclusive hold by that of a read hold, which is returned. On an error, and if the
/// future is dropped, the lock is released, at the latest with the guard.
///
/// Until the server has replied, it may store either token, so nothing is renewed, and both tokens are
/// released on every other path. A repeated request prolongs nothing: the lease counts from the request that
/// had the reply.
pub(crate) async fn downgrade(guard: &HoldGuard) -> Result<HoldGuard, LockError> {
    let hold = guard.hold().clone();
    let (name, context) = (&hold.name, hold.context());
    let claim = hold.begin_replacement()?;
    let to = claim.token.again().with_limit(Limit::UNLIMITED);
    let replacement = Replacement {
        guard,
        next: Claim {
            token: to,
            ..claim.clone()
        },
    };
    let sent = Mutex::new(context.clock.now());
    let request = |deadline| {
        *sent.lock() = context.clock.now();
        context.engine.downgrade(&claim, to, deadline)
    };
    let deadline = time::now() + hold.remaining();
    let reply = context.retry(Effort::InCall { deadline }, request).await;
    match reply {
        Ok((Some(left), _)) => {
            let sent = *sent.lock();
            let next = hold.replace(to, context.engine.lease(to, sent, left))?;
            Ok(replacement.finish(next))
        }
        Ok((None, _)) => Err(hold.not_owner()),
        Err(error) => Err(hold
            .check_lost()
            .unwrap_or_else(|| context.unavailable(name, error))),
    }
}

/// A downgrade under way. Unless it is finished, dropping it releases both tokens.
struct Replacement<'a> {
    guard: &'a HoldGuard,
    next: Claim,
}

impl Replacement<'_> {
    /// Returns the guard of the new hold. The old one has ended.
    fn finish(self, next: Arc<Hold>) -> HoldGuard {
        let queues = self.guard.queues().clone();
        self.guard.hold().end_without_request();
        self.guard.disarm();
        HoldGuard::new(next, queues)
    }
}

impl Drop for Replacement<'_> {
    fn drop(&mut self) {
        if !self.guard.is_disarmed() {
            // The exclusive token first: then a late downgrade finds that it is no holder.
            let hold = self.guard.hold().clone();
            self.guard.disarm();
            hold.end_both_in_background(self.next.clone());
        }
    }
}
