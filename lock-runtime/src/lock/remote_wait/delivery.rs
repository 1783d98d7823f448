//! Delivers a granted lock to the local waiters.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::lease::Lease;
use crate::engine::request::Claim;
use crate::lock::handoff::grant_to_front;
use crate::lock::hold::Hold;
use crate::lock::inner::ManagerInner;
use crate::lock::remote_wait::RemoteWait;
use crate::lock::remote_wait::poll_interval::FRONT_POLL;
use crate::util::backoff::fraction;
use crate::util::time::{deadline_in, sleep_until};
use std::sync::Arc;

impl RemoteWait {
    /// Delivers a granted lock once replicas have acknowledged it.
    pub(super) async fn deliver_replicated(&self, claim: Claim, lease: Lease) {
        match self.await_replicas(&claim, lease).await {
            Ok(lease) => self.deliver_grant(&claim, lease),
            Err(error) => self.return_grant(&claim, error).await,
        }
    }

    /// Renews a grant, so that replicas acknowledge it. Returns the renewed lease.
    async fn await_replicas(&self, claim: &Claim, lease: Lease) -> Result<Lease, EngineError> {
        let context = &self.inner.context;
        let sent = context.clock.now();
        let deadline = deadline_in(context.command_timeout.min(lease.remaining(sent)));
        let renewed = context.engine.renew(std::slice::from_ref(claim), deadline);
        let renewed = renewed.await?.pop().unwrap_or(Ok(false))?;
        // An acknowledgment counts only if it arrived while the lease was valid.
        match renewed && !lease.remaining(context.clock.now()).is_zero() {
            true => Ok(context.engine.lease(claim.token, sent, claim.ttl)),
            false => {
                let words = "the lock was lost before its replicas acknowledged it";
                Err(EngineError::new(EngineErrorKind::NotReady, words))
            }
        }
    }

    /// Returns a grant that replicas did not acknowledge to the server. Another claim follows soon.
    async fn return_grant(&self, claim: &Claim, error: EngineError) {
        let inner = &self.inner;
        inner.shared.releaser.cancel(claim, false).await;
        if error.is_retryable() {
            let queues = &inner.queues;
            queues.set_remote_state(&self.name, self.limit, None, Some(error));
            sleep_until(deadline_in(FRONT_POLL[0] + fraction(FRONT_POLL[0]))).await;
        } else {
            let error = inner.context.unavailable(&self.name, error);
            inner.queues.fail_all(&self.name, self.limit, &error);
        }
    }

    /// Delivers a granted lock to the local waiter at the front, and a read lock to the readers behind it; or
    /// returns it to the server.
    pub(super) fn deliver_grant(&self, claim: &Claim, lease: Lease) {
        let ManagerInner { shared, queues, .. } = &*self.inner;
        let mut hold: Option<Arc<Hold>> = None;
        let delivered = grant_to_front(queues, (&self.name, self.limit), |options| {
            if options.replicas > claim.replicas {
                return None;
            }
            if let Some(hold) = &hold {
                return hold.offer_again(options).then(|| hold.clone());
            }
            hold = Hold::granted(shared.clone(), claim.clone(), options, lease).ok();
            hold.clone()
        });
        if !delivered {
            self.as_owed(|| match hold {
                Some(hold) => {
                    hold.vacate();
                    hold.release_in_background();
                }
                None => shared.releaser.cancel_in_background(claim.clone(), false),
            });
        }
    }
}
