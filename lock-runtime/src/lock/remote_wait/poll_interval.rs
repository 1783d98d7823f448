//! How often a claim in the server queue asks, whether messages arrive or not.

use crate::engine::request::QueueStatus;
use crate::util::backoff::{Backoff, fraction};
use std::time::Duration;

/// The first and the longest polling interval of a claim at the front of the server queue.
pub(super) const FRONT_POLL: [Duration; 2] =
    [Duration::from_millis(50), Duration::from_millis(500)];
/// The polling interval of the next two claims, in case the first has died.
const NEAR_FRONT_POLL: Duration = Duration::from_secs(1);
/// The polling interval of the other claims. It grows with the number of claims ahead, all of which must have
/// died before it is their turn. A row of *n* dead claims delays the next one by at most 2 s + 0.2 s × *n*.
/// Of that, 0.2 s is for the claims that are woken to poll, and 0.05 s × *n* for their turns.
const BACK_POLL: Duration = Duration::from_millis(1800);
const BACK_POLL_PER_CLAIM: Duration = Duration::from_millis(150);
const MAX_BACK_POLL: Duration = Duration::from_secs(12);
/// How much later each claim polls than the claim ahead of it when the holder's lease expires.
const EXPIRY_STAGGER: Duration = Duration::from_millis(50);

/// Returns the time until a claim polls. A claim at the front polls often, since clients that do not use the
/// queue send no message when they release a lock. When the holder's lease expires all claims poll, one after
/// the other, since the claims ahead may be dead.
pub(super) fn next_poll_delay(waiting: &QueueStatus, front_poll: &mut Backoff) -> Duration {
    let ahead = u32::try_from(waiting.position).unwrap_or(u32::MAX);
    let at_most = |interval: Duration| interval.mul_f64(0.9) + fraction(interval.mul_f64(0.1));
    let interval = match ahead {
        0 => front_poll.pause(),
        1 | 2 => at_most(NEAR_FRONT_POLL),
        _ => {
            let more = BACK_POLL_PER_CLAIM.saturating_mul(ahead);
            at_most(MAX_BACK_POLL.min(BACK_POLL.saturating_add(more)))
        }
    };
    let expiry = waiting.holder_ttl + Duration::from_millis(2);
    interval.min(expiry.saturating_add(EXPIRY_STAGGER.saturating_mul(ahead)))
}
