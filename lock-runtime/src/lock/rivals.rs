//! Finding those who report to hold a lock that another holds.

use crate::engine::token::Token;
use crate::lock::claim_info::claim;
use crate::lock::processes::Processes;
use crate::lock_info::{ClaimInfo, ClaimReport, LockInfo, Mode};
use crate::process_info::{ProcessInfo, ReportedHold};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// How long a report may be under way: the lock may have been released meanwhile.
const UNDER_WAY: Duration = Duration::from_secs(2);

/// What processes report to hold, by key.
pub(crate) struct ReportedHolds<'a>(
    HashMap<&'a str, Vec<(&'a Arc<ProcessInfo>, &'a ReportedHold)>>,
);

impl ReportedHolds<'_> {
    pub(crate) fn of(processes: &Processes) -> ReportedHolds<'_> {
        let mut holds = HashMap::<_, Vec<_>>::new();
        for process in processes.values() {
            for hold in process.holds.iter().filter(|hold| !hold.key.is_empty()) {
                holds.entry(&*hold.key).or_default().push((process, hold));
            }
        }
        ReportedHolds(holds)
    }

    /// Returns the claims that a process has reported to hold the lock after another one, with which they do
    /// not share it, had begun to. Both times are ages by the clock of the server, so what was reported
    /// before a handover does not count.
    pub(crate) fn rivals_of(&self, lock: &LockInfo) -> Vec<ClaimInfo> {
        let holders = || lock.holders.iter().filter(|it| it.is_holder());
        let reported = self.0.get(&*lock.key).into_iter().flatten();
        let rivals = reported.filter(|(process, hold)| {
            let is_alone = Token::parse(&hold.token).is_some_and(|it| it.limit().is_exclusive());
            let is_later = |holder: &ClaimInfo| {
                let (held, age) = (holder.held_for(), process.age());
                held.zip(age)
                    .is_some_and(|(held, age)| held > age + UNDER_WAY)
            };
            !holders().any(|it| it.token == hold.token)
                && holders().any(|it| (is_alone || it.mode == Mode::Exclusive) && is_later(it))
        });
        let rivals = rivals.map(|(process, hold)| ClaimInfo {
            report: Some(ClaimReport::of(&hold.token, process)),
            ..claim(hold.token.clone())
        });
        rivals.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::operations::StoredReport;
    use crate::limit::Limit;
    use crate::lock::report::text::parse;
    use crate::process::ProcessId;

    /// Returns a process that has held the lock for so many seconds, and reported it so many seconds ago.
    fn process(id: u32, limit: Limit, held: u64, age: u64) -> (Box<str>, ProcessInfo) {
        let process = ProcessId(id);
        let token: Box<str> = Token::draw(process).with_limit(limit).to_string().into();
        let text = format!("1\torders\t\t\t1\t1\nh\t{token}\t{held}000\t0\t\t\t\tk\n");
        let stored = StoredReport {
            process,
            text: text.into(),
            age: Some(Duration::from_secs(age)),
            revision: 0,
        };
        let mut info = parse(&stored).unwrap();
        info.elapsed = Duration::from_secs(age);
        (token, info)
    }

    /// Returns how many rivals there are of the first process.
    fn rivals(of: (Box<str>, ProcessInfo), other: (Box<str>, ProcessInfo)) -> usize {
        let (token, holder) = of;
        let all = [holder, other.1].map(Arc::new);
        let lock = LockInfo {
            key: "k".into(),
            holders: vec![ClaimInfo {
                report: Some(ClaimReport::of(&token, &all[0])),
                ..claim(token)
            }],
            waiters: Vec::new(),
            waiting: 0,
            rivals: Vec::new(),
        };
        let processes: Processes = all.into_iter().map(|it| (it.id, it)).collect();
        ReportedHolds::of(&processes).rivals_of(&lock).len()
    }

    #[test]
    fn rival_has_reported_after_the_holder_began() {
        let (alone, shared) = (Limit::EXCLUSIVE, Limit::UNLIMITED);
        assert_eq!(
            rivals(process(1, alone, 10, 1), process(2, alone, 60, 5)),
            1
        );
        // It may have passed the lock on.
        assert_eq!(
            rivals(process(1, alone, 10, 1), process(2, alone, 60, 10)),
            0
        );
        assert_eq!(
            rivals(process(1, shared, 10, 1), process(2, alone, 60, 5)),
            1
        );
        assert_eq!(
            rivals(process(1, alone, 10, 1), process(2, shared, 60, 5)),
            1
        );
        assert_eq!(
            rivals(process(1, shared, 10, 1), process(2, shared, 60, 5)),
            0
        );
    }
}
