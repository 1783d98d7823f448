//! Pauses between tries.

use std::time::Duration;
use uuid::Uuid;

/// Pauses that double up to a bound, each drawn at random from its upper half, so that processes
/// which failed together don't come back together.
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
    longest: Duration,
}

impl Backoff {
    pub(crate) fn new(first: Duration, longest: Duration) -> Backoff {
        Backoff {
            next: first,
            longest,
        }
    }

    pub(crate) fn pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(self.longest);
        pause / 2 + fraction(pause / 2)
    }
}

/// A random part of `whole`.
pub(crate) fn fraction(whole: Duration) -> Duration {
    // The low half of a version 4 UUID has 62 random bits.
    let (_, random) = Uuid::new_v4().as_u64_pair();
    whole.mul_f64((random & 0xFFFF_FFFF) as f64 / 4_294_967_296.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_bound_and_keep_to_their_upper_half() {
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
