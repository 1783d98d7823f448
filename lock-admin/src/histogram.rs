//! How long many calls took, in little memory.

use std::time::Duration;

/// The number of buckets in which a duration doubles: a quantile is off by at most 5 %.
const PER_DOUBLING: f64 = 8.0;

/// Enough for 2^40 µs, 13 days.
const BUCKETS: usize = 8 * 40;

/// The durations of many calls.
#[derive(Clone, Default)]
pub(crate) struct Histogram {
    /// Grows up to [`BUCKETS`].
    counts: Vec<u32>,
}

impl Histogram {
    pub(crate) fn add(&mut self, time: Duration) {
        let micros = (time.as_micros() as f64).max(1.0);
        let bucket = (micros.log2() * PER_DOUBLING) as usize;
        let bucket = bucket.min(BUCKETS - 1);
        if self.counts.len() <= bucket {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] = self.counts[bucket].saturating_add(1);
    }

    /// Returns the half and the 99th hundredth; `None` of nothing.
    pub(crate) fn quantiles(&self) -> Option<(Duration, Duration)> {
        Some((self.quantile(0.5)?, self.quantile(0.99)?))
    }

    fn quantile(&self, part: f64) -> Option<Duration> {
        let total: u64 = self.counts.iter().map(|count| u64::from(*count)).sum();
        let rank = (total as f64 * part).ceil() as u64;
        let mut below = 0;
        let bucket = self.counts.iter().position(|count| {
            below += u64::from(*count);
            below >= rank && below > 0
        })?;
        let micros = ((bucket as f64 + 0.5) / PER_DOUBLING).exp2();
        Some(Duration::from_micros(micros as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_off_by_at_most_five_percent() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantiles(), None);
        for ms in 1..=1_000 {
            histogram.add(Duration::from_millis(ms));
        }
        let (half, most) = histogram.quantiles().expect("it has some");
        assert!((half.as_secs_f64() / 0.5 - 1.0).abs() < 0.05, "{half:?}");
        assert!((most.as_secs_f64() / 0.99 - 1.0).abs() < 0.05, "{most:?}");
    }

    #[test]
    fn every_duration_has_a_bucket() {
        for time in [Duration::ZERO, Duration::from_secs(3_600), Duration::MAX] {
            let mut histogram = Histogram::default();
            histogram.add(time);
            assert!(histogram.quantiles().is_some(), "{time:?}");
        }
    }
}
