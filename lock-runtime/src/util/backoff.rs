//! Delays between retries.

use crate::util::clock::nanos;
use once_cell::sync::Lazy;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use uuid::Uuid;

/// Delays that double up to a maximum. Each is drawn at random from its upper half, so that processes that
/// failed together do not retry together.
#[derive(Clone, Debug)]
pub(crate) struct Backoff {
    next: Duration,
    max: Duration,
}

impl Backoff {
    pub(crate) fn new(first: Duration, max: Duration) -> Backoff {
        Backoff { next: first, max }
    }

    pub(crate) fn pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(self.max);
        pause / 2 + fraction(pause / 2)
    }
}

/// Returns a random part of `whole`.
pub(crate) fn fraction(whole: Duration) -> Duration {
    #[cfg(test)]
    if let Some(part) = crate::util::shuttle::execution::random_fraction() {
        return whole.mul_f64(part);
    }
    static SEQUENCE: Lazy<AtomicU64> = Lazy::new(|| {
        let (_, seed) = Uuid::new_v4().as_u64_pair();
        AtomicU64::new(seed)
    });
    // SplitMix64 (Steele, Lea, Flood 2014): a Weyl sequence, mixed.
    let mut random = SEQUENCE.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
    random = (random ^ (random >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    random = (random ^ (random >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    let part = (u128::from(nanos(whole)) * u128::from(random)) >> 64;
    Duration::from_nanos(part as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_maximum_and_stay_in_their_upper_half() {
        let ms = Duration::from_millis;
        let mut backoff = Backoff::new(ms(10), ms(80));
        for most in [10, 20, 40, 80, 80, 80] {
            let pause = backoff.pause();
            assert!(ms(most) / 2 <= pause && pause <= ms(most), "{pause:?}");
        }
    }

    #[test]
    fn fractions_differ() {
        let second = Duration::from_secs(1);
        let drawn: std::collections::HashSet<_> = (0..100).map(|_| fraction(second)).collect();
        assert!(drawn.len() > 90);
        assert!(drawn.iter().all(|part| *part < second));
    }
}
