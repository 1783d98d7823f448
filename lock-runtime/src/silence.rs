//! When a process is silent: the rule by which all views judge.

use std::time::Duration;

/// How late an answer, or a renewal, may be: machines are busy.
const TOLERANCE: Duration = Duration::from_secs(2);

/// When the next report of a process is due, as its last one says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NextReport {
    /// The time until the next report, which comes without an ask; `None` if none may come.
    pub(crate) regular: Option<Duration>,
    /// The least time until the next report once the process is asked; `None` unless the last one was an
    /// answer: who has not heard an ask may not listen.
    pub(crate) asked: Option<Duration>,
}

impl NextReport {
    /// Returns the age of a report if the next one is late. `unanswered` is the time since the first ask
    /// after it.
    pub(crate) fn silence(self, age: Duration, unanswered: Option<Duration>) -> Option<Duration> {
        // A report that was lost on its way is followed by the next one.
        let misses_one = self.regular.is_some_and(|due| age > due + due / 4);
        let answer = self.asked.zip(unanswered);
        let misses_ask =
            answer.is_some_and(|(least, asked)| asked.min(age.saturating_sub(least)) > TOLERANCE);
        (misses_one || misses_ask).then_some(age)
    }

    /// Returns `true` if an answer is due by now.
    pub(crate) fn is_awaited(self, age: Duration, unanswered: Option<Duration>) -> bool {
        unanswered.is_some() && self.asked.is_some_and(|least| age >= least)
    }
}

/// Returns the time since the last renewal of a lease of that length if the next one, which is due after a
/// third of it, is late.
pub(crate) fn without_renewal(ttl: Duration, left: Duration) -> Option<Duration> {
    let since = ttl.saturating_sub(left);
    (since > ttl / 3 + TOLERANCE.max(ttl / 6)).then_some(since)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn report_is_late_by_what_the_last_one_promised() {
        let regular = NextReport {
            regular: Some(seconds(60)),
            asked: None,
        };
        assert_eq!(regular.silence(seconds(75), Some(seconds(75))), None);
        assert_eq!(regular.silence(seconds(76), None), Some(seconds(76)));
        let asked = NextReport {
            regular: None,
            asked: Some(seconds(10)),
        };
        assert_eq!(asked.silence(seconds(600), None), None);
        assert_eq!(asked.silence(seconds(600), Some(seconds(2))), None);
        assert_eq!(asked.silence(seconds(12), Some(seconds(11))), None);
        let late = asked.silence(seconds(13), Some(seconds(3)));
        assert_eq!(late, Some(seconds(13)));
        let none = NextReport::default();
        assert_eq!(none.silence(seconds(600), Some(seconds(600))), None);
    }

    #[test]
    fn renewal_is_late_after_half_of_the_lease() {
        assert_eq!(without_renewal(seconds(30), seconds(15)), None);
        assert_eq!(without_renewal(seconds(30), seconds(14)), Some(seconds(16)));
        assert_eq!(without_renewal(seconds(3), seconds(1)), None);
        assert_eq!(without_renewal(seconds(3), seconds(4)), None);
    }
}
