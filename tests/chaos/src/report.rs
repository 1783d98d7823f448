//! The summed results of many schedules.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::checker::{Verdict, Violation};
use crate::deployment::Topology;
use crate::fault::Kind;
use crate::schedule::RunResult;
pub use crate::tally::Tally;
use crate::tally::grouped;

/// The results by topology.
#[derive(Default)]
pub struct Report {
    topologies: BTreeMap<Topology, Tally>,
    /// How often each kind was planned, in all topologies.
    planned: BTreeMap<Kind, usize>,
    /// How often each scene was played.
    scenes: BTreeMap<&'static str, usize>,
    /// The topology or scene, and the seed.
    violations: Vec<(&'static str, u64, Violation)>,
}

impl Report {
    pub fn add(&mut self, played: &RunResult, verdict: &Verdict) {
        let topology = self.topologies.entry(played.topology).or_default();
        topology.add(&played.history, verdict);
        for step in &played.plan.steps {
            *self.planned.entry(step.kind).or_default() += 1;
        }
        if let Some(scene) = played.scene {
            topology.scenes += 1;
            *self.scenes.entry(scene).or_default() += 1;
        }
        let name = played.scene.unwrap_or(played.topology.name());
        let violations = verdict.violations.iter().cloned();
        self.violations
            .extend(violations.map(|violation| (name, played.seed, violation)));
    }

    pub fn violations(&self) -> usize {
        self.violations.len() + self.idle().len() + self.unkept().len()
    }

    /// Returns the topologies on which many calls left their locks to their processes, and none resumed one.
    fn unkept(&self) -> Vec<Topology> {
        const MANY: usize = 500;
        let topologies = self.topologies.iter().filter(|(topology, tally)| {
            topology.keeps() && tally.lazy >= MANY && tally.resumed == 0
        });
        topologies.map(|(topology, _)| *topology).collect()
    }

    /// Returns the kinds that were planned often and never carried out.
    fn idle(&self) -> Vec<Kind> {
        const OFTEN: usize = 20;
        let faults = self.sum().faults;
        let planned = self.planned.iter();
        let idle = planned.filter(|(kind, count)| **count >= OFTEN && !faults.contains_key(*kind));
        idle.map(|(kind, _)| *kind).collect()
    }

    /// Returns the sum over all topologies.
    pub fn sum(&self) -> Tally {
        let mut sum = Tally::default();
        self.topologies.values().for_each(|tally| sum.merge(tally));
        sum
    }

    fn columns(&self) -> Vec<(&'static str, Tally)> {
        let topologies = self.topologies.iter();
        let mut columns: Vec<_> = topologies
            .map(|(topology, tally)| (topology.name(), tally.clone()))
            .collect();
        if columns.len() > 1 {
            columns.push(("all", self.sum()));
        }
        columns
    }
}

/// Returns the name of a kind in words.
pub fn words(kind: Kind) -> String {
    let mut words = String::new();
    for letter in format!("{kind:?}").chars() {
        if letter.is_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.extend(letter.to_lowercase());
    }
    words
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.columns();
        let head = || columns.iter().map(|(name, _)| (*name).to_owned());
        let mut table = vec![[String::new()].into_iter().chain(head()).collect()];
        let lines: Vec<_> = columns.iter().map(|(_, tally)| tally.lines()).collect();
        let names = Tally::default().lines();
        for (number, (name, _)) in names.iter().enumerate() {
            let figures = lines.iter().map(|lines| lines[number].1.to_string());
            table.push([(*name).to_owned()].into_iter().chain(figures).collect());
        }
        write_table(f, &table)?;
        writeln!(f)?;
        table = vec![["fault".to_owned()].into_iter().chain(head()).collect()];
        let kinds: BTreeSet<Kind> = columns
            .iter()
            .flat_map(|(_, tally)| tally.faults.keys().copied())
            .collect();
        for kind in kinds {
            let count = |tally: &Tally| {
                tally
                    .faults
                    .get(&kind)
                    .copied()
                    .map_or(String::new(), grouped)
            };
            let counts = columns.iter().map(|(_, tally)| count(tally));
            table.push([words(kind)].into_iter().chain(counts).collect());
        }
        write_table(f, &table)?;
        if !self.scenes.is_empty() {
            writeln!(f)?;
            let head = ["scene", "played"].map(str::to_owned).to_vec();
            let rows = self.scenes.iter();
            let rows = rows.map(|(name, count)| vec![name.replace('_', " "), grouped(*count)]);
            write_table(f, &[head].into_iter().chain(rows).collect::<Vec<_>>())?;
        }
        for kind in self.idle() {
            writeln!(f, "\n{} was planned but never occurred", words(kind))?;
        }
        for topology in self.unkept() {
            writeln!(f, "\nno call resumed a kept lock on {}", topology.name())?;
        }
        for (name, seed, violation) in &self.violations {
            writeln!(f, "\n{name}, seed {seed}: {violation}")?;
        }
        Ok(())
    }
}

/// Writes a Markdown table that is readable as plain text: names left-aligned, numbers right-aligned.
fn write_table(f: &mut fmt::Formatter<'_>, table: &[Vec<String>]) -> fmt::Result {
    let width = |column: usize| {
        let cells = table.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0).max(3)
    };
    let widths: Vec<_> = (0..table[0].len()).map(width).collect();
    for (number, row) in table.iter().enumerate() {
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            match column {
                0 => write!(f, "| {cell:width$} |")?,
                _ => write!(f, " {cell:>width$} |")?,
            }
        }
        writeln!(f)?;
        if number == 0 {
            for (column, width) in widths.iter().enumerate() {
                match column {
                    0 => write!(f, "| {:-<width$} |", "")?,
                    _ => write!(f, " {:->width$} |", ":")?,
                }
            }
            writeln!(f)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checker::Rule;
    use crate::fault::Fault;
    use crate::history::{History, Promises};
    use crate::journal::{CallKind, Event, EventKind};

    fn history(fenced: bool, kinds: &[Kind]) -> History {
        let fault = |kind: &Kind| Fault {
            kind: *kind,
            target: String::new(),
            from: 0,
            until: 0,
            workers: Vec::new(),
            forgotten: None,
            away: false,
            vain: false,
        };
        History {
            faults: kinds.iter().map(fault).collect(),
            promises: Promises {
                fenced,
                ..Promises::default()
            },
            ..History::default()
        }
    }

    fn verdict(holds: usize, losses: &[u64], gap: u64) -> Verdict {
        Verdict {
            holds,
            lost: losses.len(),
            losses: losses.iter().map(|millis| millis * 1_000_000).collect(),
            longest_gap: gap * 1_000_000,
            lost_updates: 3,
            writes: 5,
            ..Verdict::default()
        }
    }

    fn played(topology: Topology, seed: u64, history: History) -> RunResult {
        RunResult {
            topology,
            scene: None,
            variant: "",
            seed,
            took: std::time::Duration::ZERO,
            plan: crate::plan::Plan { steps: Vec::new() },
            history,
        }
    }

    fn report() -> Report {
        let mut report = Report::default();
        let faults = [Kind::WorkerKilled, Kind::WorkerKilled, Kind::Flushed];
        let mut broken = verdict(234, &[1, 30], 400);
        broken.violations.push(Violation {
            rule: Rule::Waits,
            text: "for too long".into(),
        });
        let mut scene = played(Topology::Standalone, 7, history(true, &faults));
        scene.scene = Some("all_is_well");
        report.add(&scene, &broken);
        let other = verdict(1000, &[2], 1500);
        report.add(
            &played(Topology::Standalone, 8, history(false, &[])),
            &other,
        );
        report.add(
            &played(Topology::Memory, 9, history(true, &[])),
            &verdict(1, &[], 1),
        );
        report
    }

    #[test]
    fn report_sums_its_schedules() {
        let sum = report().sum();
        assert_eq!((sum.schedules, sum.holds, sum.writes), (3, 1235, 15));
        assert_eq!((sum.unfenced, sum.lost_updates), (5, 3));
        assert_eq!(sum.noticed(), (2_000_000, 30_000_000));
        assert_eq!(sum.lost, 3);
        assert_eq!(sum.longest_gap, 1_500_000_000);
        assert_eq!(sum.faults[&Kind::WorkerKilled], 2);
        assert_eq!(sum.violations, 1);
    }

    #[test]
    fn campaign_in_which_no_call_resumes_a_kept_lock_fails() {
        let event = |what| Event {
            at: 0,
            boot: 0,
            worker: 0,
            call: 0,
            what,
        };
        let called = EventKind::Called {
            key: 0,
            others: Vec::new(),
            kind: CallKind::Waits,
            lazy: true,
            ttl: 0,
            wait: 0,
        };
        let mut history = history(true, &[]);
        history.events = vec![event(called); 500];
        let mut report = Report::default();
        report.add(
            &played(Topology::Sqlite, 1, history.clone()),
            &verdict(1, &[], 1),
        );
        assert_eq!(report.violations(), 0);
        report.add(
            &played(Topology::Standalone, 2, history.clone()),
            &verdict(1, &[], 1),
        );
        assert_eq!(report.violations(), 1);
        let (resumed, recalled) = (1, 0);
        history.events = vec![event(EventKind::Counted { resumed, recalled })];
        report.add(
            &played(Topology::Standalone, 3, history),
            &verdict(1, &[], 1),
        );
        assert_eq!(report.violations(), 0);
    }

    #[test]
    fn report_table_is_aligned() {
        let text = report().to_string();
        println!("{text}");
        let row = |name: &str| {
            let mut lines = text.lines();
            let row = lines.find(|line| line.contains(name)).unwrap();
            let cells = row.split('|').map(str::trim);
            cells.collect::<Vec<_>>().join(" ").trim().to_owned()
        };
        assert_eq!(row("memory"), "memory standalone all");
        assert_eq!(row("holds"), "holds 1 1,234 1,235");
        assert_eq!(
            row("without a holder"),
            "longest time without a holder 1 ms 1.5 s 1.5 s"
        );
        assert_eq!(row("worker killed"), "worker killed  2 2");
        assert!(text.ends_with("all_is_well, seed 7: Waits: for too long\n"));
        assert_eq!(row("all is well"), "all is well 1");
        let wide = |line: &&str| line.starts_with('|');
        let widths = text.lines().filter(wide).map(|line| line.chars().count());
        let widths: BTreeSet<_> = widths.collect();
        assert!(widths.len() <= 3, "{widths:?}");
    }
}
