//! What this process has observed of the reports of others, by its own clock.

use crate::engine::operations::{MAX_REPORTS, StoredReport};
use crate::process::ProcessId;
use crate::util::sync::Mutex;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;
use tokio::time::Instant;

/// How many asks are remembered: the first of them is long ago if they are that many.
const ASKS: usize = 32;

#[derive(Default)]
pub(crate) struct Observed {
    /// When this process has asked for reports.
    asks: Mutex<VecDeque<Instant>>,
    /// The last report of each process whose age the server does not know, and when it was seen first.
    reports: Mutex<HashMap<ProcessId, (i64, Instant)>>,
}

impl Observed {
    pub(crate) fn on_asked(&self, now: Instant) {
        let mut asks = self.asks.lock();
        if asks.len() >= ASKS {
            asks.pop_front();
        }
        asks.push_back(now);
    }

    /// Returns the time since the first ask after a report of that age.
    pub(crate) fn unanswered(&self, age: Duration, now: Instant) -> Option<Duration> {
        let asks = self.asks.lock();
        let mut since = asks
            .iter()
            .map(|asked| now.saturating_duration_since(*asked));
        since.find(|since| *since < age)
    }

    /// Returns the age of a report, or if the server does not know it, for how long this process has known
    /// the report.
    pub(crate) fn age(&self, report: &StoredReport, now: Instant) -> Duration {
        if let Some(age) = report.age {
            return age;
        }
        let mut reports = self.reports.lock();
        if reports.len() >= MAX_REPORTS && !reports.contains_key(&report.process) {
            reports.clear();
        }
        let new = (report.revision, now);
        let known = reports.entry(report.process).or_insert(new);
        if known.0 != report.revision {
            *known = new;
        }
        now.saturating_duration_since(known.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn report_without_an_age_grows_old_until_it_is_replaced() {
        let (observed, begin) = (Observed::default(), Instant::now());
        let report = |age, revision| StoredReport {
            process: ProcessId(7),
            text: "".into(),
            age,
            revision,
        };
        let age = |report, after| observed.age(&report, begin + seconds(after));
        assert_eq!(age(report(None, 1), 0), seconds(0));
        assert_eq!(age(report(None, 1), 5), seconds(5));
        assert_eq!(age(report(None, 2), 6), seconds(0));
        assert_eq!(age(report(None, 2), 7), seconds(1));
        assert_eq!(age(report(Some(seconds(9)), 2), 7), seconds(9));
    }

    #[test]
    fn first_ask_after_a_report_counts() {
        let (observed, begin) = (Observed::default(), Instant::now());
        for after in 0..3 {
            observed.on_asked(begin + seconds(after));
        }
        let unanswered = |age| observed.unanswered(seconds(age), begin + seconds(3));
        assert_eq!(unanswered(9), Some(seconds(3)));
        assert_eq!(unanswered(3), Some(seconds(2)));
        assert_eq!(unanswered(1), None);
    }
}
