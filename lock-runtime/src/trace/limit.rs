//! Limits how often the same trouble is reported.

use std::time::Duration;
use tokio::time::Instant;

/// At most one warning about the same thing is reported in this time.
pub(crate) const PERIOD: Duration = Duration::from_secs(5);

/// Trouble with one thing: it comes, may last, and ends.
#[derive(Default)]
pub(crate) struct Trouble {
    /// When it was reported last.
    told: Option<Instant>,
    /// It was reported, and has not ended since.
    lasts: bool,
}

impl Trouble {
    /// There is trouble. Returns `true` if it is to be reported now.
    pub(crate) fn comes(&mut self, now: Instant) -> bool {
        let due = self.told.is_none_or(|told| now >= told + PERIOD);
        if due {
            self.told = Some(now);
            self.lasts = true;
        }
        due
    }

    /// Returns `true` if reported trouble has not ended yet.
    pub(crate) fn lasts(&self) -> bool {
        self.lasts
    }

    /// There is no trouble. Returns `true` if its end is to be reported.
    pub(crate) fn ends(&mut self) -> bool {
        std::mem::take(&mut self.lasts)
    }

    /// Returns `true` if it was reported so long ago that it can be forgotten.
    pub(crate) fn is_old(&self, now: Instant) -> bool {
        self.told.is_none_or(|told| now >= told + 12 * PERIOD)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_warning_in_a_period_and_one_end_for_each() {
        let start = Instant::now();
        let mut trouble = Trouble::default();
        let (mut told, mut ended) = (0, 0);
        // It comes and goes a hundred times a second, for twelve seconds.
        for tick in 0..1200 {
            let now = start + tick * Duration::from_millis(10);
            told += u32::from(trouble.comes(now));
            ended += u32::from(trouble.ends());
        }
        assert_eq!((told, ended), (3, 3));
    }

    #[test]
    fn what_lasts_is_told_again_each_period_and_ends_once() {
        let start = Instant::now();
        let mut trouble = Trouble::default();
        assert!(!trouble.ends(), "nothing has been told");
        assert!(trouble.comes(start));
        assert!(!trouble.comes(start + PERIOD - Duration::from_nanos(1)));
        assert!(trouble.comes(start + PERIOD));
        assert!(trouble.lasts());
        assert!(trouble.ends());
        assert!(!trouble.ends() && !trouble.lasts());
    }

    #[test]
    fn it_is_remembered_for_a_minute() {
        let start = Instant::now();
        let mut trouble = Trouble::default();
        assert!(trouble.comes(start));
        assert!(!trouble.is_old(start + PERIOD));
        assert!(trouble.is_old(start + 12 * PERIOD));
    }
}
