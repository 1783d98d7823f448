//! The summed results of the schedules of one topology.

use std::collections::BTreeMap;
use std::fmt;

use crate::checker::Verdict;
use crate::fault::Kind;
use crate::history::History;
use crate::journal::EventKind;

/// All durations are in nanoseconds.
#[derive(Clone, Default)]
pub struct Tally {
    pub schedules: usize,
    /// The number of them that were scenes.
    pub scenes: usize,
    pub calls: usize,
    pub holds: usize,
    pub hand_offs: usize,
    /// Calls that left their lock to their process, and what became of such locks, unless their process was
    /// killed.
    pub lazy: usize,
    pub resumed: usize,
    pub recalled: usize,
    pub faults: BTreeMap<Kind, usize>,
    pub lost: usize,
    pub losses: Vec<u64>,
    pub late_steps: usize,
    pub double_holds: usize,
    pub longest_double_hold: u64,
    pub tokens: usize,
    pub writes: usize,
    pub refused: usize,
    /// Writes to a resource that compares no tokens, and those of them that overwrote another update.
    pub unfenced: usize,
    pub lost_updates: usize,
    pub in_line: usize,
    pub believed: usize,
    pub longest_gap: u64,
    pub longest_over: u64,
    /// Holders and waiters hit by process faults.
    pub hit: (usize, usize),
    pub violations: usize,
}

impl Tally {
    pub fn add(&mut self, history: &History, verdict: &Verdict) {
        let mut one = Self {
            schedules: 1,
            calls: verdict.calls,
            holds: verdict.holds,
            hand_offs: verdict.hand_offs,
            lost: verdict.lost,
            losses: verdict.losses.clone(),
            late_steps: verdict.late_steps,
            double_holds: verdict.double_holds,
            longest_double_hold: verdict.longest_double_hold,
            tokens: verdict.tokens,
            writes: verdict.writes,
            refused: verdict.refused,
            in_line: verdict.in_line,
            believed: verdict.believed,
            longest_gap: verdict.longest_gap,
            longest_over: verdict.longest_over,
            hit: verdict.hit,
            violations: verdict.violations.len(),
            ..Self::default()
        };
        if !history.promises.fenced {
            (one.unfenced, one.lost_updates) = (verdict.writes, verdict.lost_updates);
        }
        for event in &history.events {
            match event.what {
                EventKind::Called { lazy: true, .. } => one.lazy += 1,
                EventKind::Counted { resumed, recalled } => {
                    one.resumed += resumed as usize;
                    one.recalled += recalled as usize;
                }
                _ => {}
            }
        }
        for fault in history.faults.iter().filter(|fault| !fault.vain) {
            *one.faults.entry(fault.kind).or_default() += 1;
        }
        self.merge(&one);
    }

    pub fn merge(&mut self, other: &Self) {
        self.schedules += other.schedules;
        self.scenes += other.scenes;
        self.calls += other.calls;
        self.holds += other.holds;
        self.hand_offs += other.hand_offs;
        self.lazy += other.lazy;
        self.resumed += other.resumed;
        self.recalled += other.recalled;
        for (kind, count) in &other.faults {
            *self.faults.entry(*kind).or_default() += count;
        }
        self.lost += other.lost;
        self.losses.extend(&other.losses);
        self.late_steps += other.late_steps;
        self.double_holds += other.double_holds;
        self.longest_double_hold = self.longest_double_hold.max(other.longest_double_hold);
        self.tokens += other.tokens;
        self.writes += other.writes;
        self.refused += other.refused;
        self.unfenced += other.unfenced;
        self.lost_updates += other.lost_updates;
        self.in_line += other.in_line;
        self.believed += other.believed;
        self.longest_gap = self.longest_gap.max(other.longest_gap);
        self.longest_over = self.longest_over.max(other.longest_over);
        self.hit.0 += other.hit.0;
        self.hit.1 += other.hit.1;
        self.violations += other.violations;
    }

    /// Returns the median and the maximum time until a loss was noticed.
    pub fn noticed(&self) -> (u64, u64) {
        let mut losses = self.losses.clone();
        losses.sort_unstable();
        let middle = losses.get(losses.len().saturating_sub(1) / 2);
        let most = losses.last();
        (middle.copied().unwrap_or(0), most.copied().unwrap_or(0))
    }

    pub fn lines(&self) -> Vec<(&'static str, Figure)> {
        use Figure::{Count, Time};
        let (middle, most) = self.noticed();
        vec![
            ("schedules", Count(self.schedules)),
            ("… that were scenes", Count(self.scenes)),
            ("faults", Count(self.faults.values().sum())),
            ("… that hit a process with a lock", Count(self.hit.0)),
            ("… that hit a waiting process", Count(self.hit.1)),
            ("calls", Count(self.calls)),
            ("holds", Count(self.holds)),
            ("hand-offs to another worker", Count(self.hand_offs)),
            (
                "calls that left their lock to the process",
                Count(self.lazy),
            ),
            ("calls that resumed a kept lock", Count(self.resumed)),
            ("locks recalled", Count(self.recalled)),
            ("waits checked for their order", Count(self.in_line)),
            ("leases compared with the server's", Count(self.believed)),
            ("fencing tokens", Count(self.tokens)),
            ("losses noticed", Count(self.lost)),
            ("… after the lease's end, half within", Time(middle)),
            ("… after the lease's end, all within", Time(most)),
            ("steps no await could stop", Count(self.late_steps)),
            (
                "two holders, as a server had forgotten",
                Count(self.double_holds),
            ),
            ("… for at most", Time(self.longest_double_hold)),
            ("writes", Count(self.writes)),
            ("… stale, and refused", Count(self.refused)),
            ("writes without fencing", Count(self.unfenced)),
            ("… that undid another", Count(self.lost_updates)),
            ("longest wait beyond its bound", Time(self.longest_over)),
            ("longest time without a holder", Time(self.longest_gap)),
            ("violations", Count(self.violations)),
        ]
    }
}

#[derive(Clone, Copy)]
pub enum Figure {
    Count(usize),
    Time(u64),
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Count(count) => f.write_str(&grouped(count)),
            Self::Time(nanos) => match nanos / 1_000_000 {
                0 => write!(f, "{:.1} ms", nanos as f64 / 1e6),
                millis @ 1..1000 => write!(f, "{millis} ms"),
                millis => write!(f, "{:.1} s", millis as f64 / 1e3),
            },
        }
    }
}

/// Formats a number as `1,234,567`.
pub fn grouped(count: usize) -> String {
    let digits = count.to_string();
    let groups = digits.as_bytes().rchunks(3).rev();
    let groups: Vec<_> = groups.map(String::from_utf8_lossy).collect();
    groups.join(",")
}
