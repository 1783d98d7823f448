//! Limits how often the same failure is reported.

use std::time::Duration;
use tokio::time::Instant;

/// At most one warning about the same failure is reported per period.
pub(crate) const PERIOD: Duration = Duration::from_secs(5);

/// A failure that can recur: it begins, may last, and ends.
#[derive(Default)]
pub(crate) struct Trouble {
    /// When it was last reported.
    reported: Option<Instant>,
    /// `true` if it was reported and has not ended since.
    lasts: bool,
}

impl Trouble {
    /// Records a failure. Returns `true` if it must be reported now.
    pub(crate) fn comes(&mut self, now: Instant) -> bool {
        let due = self
            .reported
            .is_none_or(|reported| now >= reported + PERIOD);
        if due {
            self.reported = Some(now);
            self.lasts = true;
        }
        due
    }

    /// Returns `true` if a reported failure has not ended yet.
    pub(crate) fn lasts(&self) -> bool {
        self.lasts
    }

    /// Records that there is no failure. Returns `true` if the end of one must be reported.
    pub(crate) fn ends(&mut self) -> bool {
        std::mem::take(&mut self.lasts)
    }

    /// Returns `true` if it was not reported in the last 12 periods and can be dropped.
    pub(crate) fn is_old(&self, now: Instant) -> bool {
        self.reported
            .is_none_or(|reported| now >= reported + 12 * PERIOD)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_period_has_one_warning_and_one_end() {
        let start = Instant::now();
        let mut trouble = Trouble::default();
        let (mut reported, mut ended) = (0, 0);
        // The failure comes and goes a hundred times a second, for twelve seconds.
        for tick in 0..1200 {
            let now = start + tick * Duration::from_millis(10);
            reported += u32::from(trouble.comes(now));
            ended += u32::from(trouble.ends());
        }
        assert_eq!((reported, ended), (3, 3));
    }

    #[test]
    fn a_lasting_failure_is_reported_once_per_period_and_ends_once() {
        let start = Instant::now();
        let mut trouble = Trouble::default();
        assert!(!trouble.ends(), "no failure was reported");
        assert!(trouble.comes(start));
        assert!(!trouble.comes(start + PERIOD - Duration::from_nanos(1)));
        assert!(trouble.comes(start + PERIOD));
        assert!(trouble.lasts());
        assert!(trouble.ends());
        assert!(!trouble.ends() && !trouble.lasts());
    }

    #[test]
    fn a_failure_is_remembered_for_a_minute() {
        let start = Instant::now();
        let mut trouble = Trouble::default();
        assert!(trouble.comes(start));
        assert!(!trouble.is_old(start + PERIOD));
        assert!(trouble.is_old(start + 12 * PERIOD));
    }
}
