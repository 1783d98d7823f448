//! Sends renewals, many of them in one request.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::request::Claim;
use crate::engine::traits::{Engine, Shard};
use crate::event::LockEvent;
use crate::lock::context::Context;
use crate::lock::watchdog::renewable::{Renewable, Renewal};
use crate::util::panics::caught;
use crate::util::time::now;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The largest number of locks in one renewal request: enough to be cheap, few enough for the server to
/// serve other requests in between.
pub(super) const MAX_BATCH: usize = 200;

/// Groups the renewals that may share a request: those on the same server with timeouts of the same
/// magnitude, sorted by slot. Those with and without replicas are separate, so that waiting for replicas
/// delays only the former.
pub(super) fn batches(mut renewals: Vec<Renewal>, engine: &dyn Engine) -> Vec<Vec<Renewal>> {
    let group = |renewal: &Renewal| {
        let Shard { server, slot } = engine.shard_of(&renewal.claim.name);
        let octave = renewal.timeout.as_millis().max(1).ilog2();
        let replicated = renewal.claim.replicas > 0;
        ((server, replicated, octave), slot)
    };
    renewals.sort_by_cached_key(group);
    let mut batches = Vec::new();
    while let Some(last) = renewals.last() {
        let (last, _) = group(last);
        let batch = renewals.iter().rev().take(MAX_BATCH);
        let batch = batch.take_while(|renewal| group(renewal).0 == last);
        batches.push(renewals.split_off(renewals.len() - batch.count()));
    }
    batches
}

pub(super) async fn renew_batch(batch: Vec<Renewal>, context: Arc<Context>) {
    let timeout = batch.iter().map(|renewal| renewal.timeout).min();
    let each = batch.into_iter();
    let (claims, holds): (Vec<Claim>, Vec<_>) = each.map(|it| (it.claim, it.hold)).unzip();
    let sent = context.clock.now();
    let deadline = now() + timeout.unwrap_or_default();
    let replies = caught(context.engine.renew(&claims, deadline)).await;
    let replies = replies.unwrap_or_else(|_| {
        let words = "the renewal panicked";
        Err(EngineError::new(EngineErrorKind::Indeterminate, words))
    });
    let Some(name) = claims.first().map(|claim| &claim.name) else {
        return;
    };
    let failed = failed(&replies, holds.len());
    context
        .failures
        .renewals(|| context.server_of(name), failed);
    fetch(&holds);
    let now = context.clock.now();
    let mut margins = Vec::with_capacity(holds.len());
    match &replies {
        Ok(replies) => {
            for (hold, reply) in holds.into_iter().zip(replies) {
                match reply {
                    Ok(is_owner) => margins.extend(hold.on_renewed(sent, now, *is_owner)),
                    Err(error) => hold.on_renewal_failed(error),
                }
            }
        }
        Err(error) => {
            for hold in holds {
                hold.on_renewal_failed(error);
            }
        }
    }
    if let Some(margin) = margins.iter().copied().reduce(f64::min) {
        let count = margins.len();
        context
            .telemetry
            .publish(&LockEvent::Renewed { count, margin });
    }
    if let Some((count, error)) = failed {
        context.telemetry.publish(&LockEvent::RenewalFailed {
            server: &context.server_of(name),
            count,
            error: &*error.source,
        });
    }
}

/// Returns the number of failures among `sent` renewals, and the last error, if there is one.
fn failed(
    replies: &Result<Vec<Result<bool, EngineError>>, EngineError>,
    sent: usize,
) -> Option<(usize, &EngineError)> {
    match replies {
        Err(error) => Some((sent, error)),
        Ok(replies) => {
            let errors = || replies.iter().filter_map(|reply| reply.as_ref().err());
            Some((errors().count(), errors().next_back()?))
        }
    }
}

/// Reads the holds and their names. The processor fetches them from memory side by side; later, while it
/// locks one after the other, it waits for each.
pub(super) fn fetch(holds: &[Arc<dyn Renewable>]) {
    for hold in holds {
        let name = hold.name().as_bytes().first();
        std::hint::black_box((hold.place().load(Ordering::Relaxed), name.copied()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::manager::LockManager;
    use std::time::Duration;

    #[tokio::test]
    async fn short_leases_are_renewed_in_batches_of_their_own() {
        let locks = LockManager::connect("memory://").await.unwrap();
        let guard = locks.lock("row").acquire().await.unwrap();
        let renewal = |n| Renewal {
            claim: guard.hold().claim(),
            timeout: Duration::from_millis(if n < 450 { 1_000 } else { 100 }),
            hold: guard.hold().clone(),
        };
        let renewals = (0..455).rev().map(renewal).collect();
        let batches = batches(renewals, &*locks.inner.context.engine);
        let is_short = |renewal: &Renewal| renewal.timeout < Duration::from_secs(1);
        let (short, long): (Vec<_>, Vec<_>) =
            batches.iter().partition(|batch| batch.iter().any(is_short));
        let sizes =
            |batches: Vec<&Vec<_>>| -> Vec<_> { batches.into_iter().map(Vec::len).collect() };
        assert_eq!(sizes(short).into_iter().sum::<usize>(), 5);
        assert_eq!(sizes(long), [200, 200, 50]);
    }
}
