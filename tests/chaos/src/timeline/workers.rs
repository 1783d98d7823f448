//! A lane for each worker, with a row in it for each lock.

use super::canvas::{Canvas, INK, LEFT, Mark, color};
use crate::checker::{Call, Case};
use crate::fault::{Fault, Kind};
use crate::journal::{EventKind, Outcome};

const ROW: f64 = 8.0;
const GAP: f64 = 2.0;
const BETWEEN: f64 = 9.0;

pub struct Lanes {
    pub keys: Vec<u32>,
    workers: Vec<u32>,
    top: f64,
}

impl Lanes {
    pub fn of(case: &Case<'_>, canvas: &Canvas, top: f64) -> Self {
        let shown = |call: &&Call| canvas.shows(call.called, call.over().unwrap_or(case.end));
        let calls = || case.calls.iter().filter(shown);
        let mut keys: Vec<u32> = calls().map(|call| call.key).collect();
        let mut workers: Vec<u32> = calls().map(|call| call.worker).collect();
        for numbers in [&mut keys, &mut workers] {
            numbers.sort_unstable();
            numbers.dedup();
        }
        Self { keys, workers, top }
    }

    fn lane(&self) -> f64 {
        self.keys.len() as f64 * (ROW + GAP) + GAP
    }

    pub fn bottom(&self) -> f64 {
        self.top + self.workers.len() as f64 * (self.lane() + BETWEEN)
    }

    /// Returns the upper end of the worker's lane.
    fn y(&self, worker: u32) -> Option<f64> {
        let number = self.workers.iter().position(|other| *other == worker)?;
        Some(self.top + number as f64 * (self.lane() + BETWEEN))
    }

    fn row(&self, worker: u32, key: u32) -> Option<f64> {
        let number = self.keys.iter().position(|other| *other == key)?;
        Some(self.y(worker)? + GAP + number as f64 * (ROW + GAP))
    }

    pub fn draw(&self, canvas: &mut Canvas, case: &Case<'_>) {
        for worker in &self.workers {
            self.band(canvas, case, *worker);
        }
        for call in &case.calls {
            if let Some(y) = self.row(call.worker, call.key) {
                wait(canvas, case, call, y);
            }
        }
        for call in case.holds() {
            if let Some(y) = self.row(call.worker, call.key) {
                hold(canvas, case, call, y);
            }
        }
        for fault in &case.history.faults {
            for worker in &fault.workers {
                if let Some(y) = self.y(*worker) {
                    self.inject(canvas, fault, y);
                }
            }
        }
        for write in case.history.writes.iter().filter(|write| !write.accepted) {
            if let Some(y) = self.row(write.worker, write.key)
                && canvas.mark(Mark::Refused, (write.at, write.at))
            {
                canvas.triangle(canvas.x(write.at), y + ROW / 2.0, 4.5);
            }
        }
        self.twice(canvas, case);
    }

    /// Draws the lifetime of the worker's process.
    fn band(&self, canvas: &mut Canvas, case: &Case<'_>, worker: u32) {
        let Some(y) = self.y(worker) else { return };
        let style = r#" text-anchor="end" font-weight="600""#;
        let name = format!("worker {worker}");
        canvas.text(LEFT - 10.0, y + self.lane() / 2.0 + 4.0, style, &name);
        let mut events = case.history.events.iter();
        let own = events.by_ref().filter(|event| event.worker == worker);
        let (mut from, mut until) = (u64::MAX, 0);
        for event in own {
            from = from.min(event.at);
            until = match event.what {
                // A worker that ended as planned is drawn to the end.
                EventKind::Exited { .. } => u64::MAX,
                _ => until.max(event.at),
            };
        }
        let until = case.killed(worker).unwrap_or(until);
        let style = format!(r#"fill="{INK}" fill-opacity="0.1""#);
        canvas.bar((from, until), y, self.lane(), &style, "");
    }

    fn inject(&self, canvas: &mut Canvas, fault: &Fault, y: f64) {
        let lane = self.lane();
        match fault.kind {
            Kind::WorkerStopped => {
                let stop = (fault.from, fault.until);
                canvas.mark(Mark::Stopped, stop);
                canvas.bar(stop, y, lane, r#"fill="url(#stopped)""#, "stopped");
            }
            Kind::WorkerKilled if canvas.shows(fault.from, fault.from) => {
                let x = canvas.x(fault.from);
                canvas.cross(x, y + lane / 2.0, 6.0);
                let style = r#" font-size="11" font-weight="600""#;
                canvas.text(x + 12.0, y + lane / 2.0 + 4.0, style, "killed");
            }
            Kind::RuntimeDropped if canvas.mark(Mark::Dropped, (fault.from, fault.from)) => {
                canvas.dashes(canvas.x(fault.from), y, lane);
            }
            Kind::ClockStepped if canvas.mark(Mark::Slept, (fault.from, fault.from)) => {
                canvas.moon(canvas.x(fault.from), y + lane / 2.0);
            }
            _ => {}
        }
    }

    /// Marks the spans in which two calls provably hold one lock.
    fn twice(&self, canvas: &mut Canvas, case: &Case<'_>) {
        for (key, holds) in case.by_key() {
            let mut last: Option<(u64, u32)> = None;
            let exclusive = holds.filter(|call| call.kind.limit() == 1);
            for (call, (from, until)) in exclusive.filter_map(|call| Some((call, call.held()?))) {
                if let Some((_, other)) = last.filter(|(end, _)| *end > from)
                    && canvas.mark(Mark::Twice, (from, from))
                {
                    for worker in [other, call.worker] {
                        if let Some(y) = self.row(worker, key) {
                            canvas.diamond(canvas.x(from), y + ROW / 2.0, 5.5);
                        }
                    }
                }
                if last.is_none_or(|(end, _)| end < until) {
                    last = Some((until, call.worker));
                }
            }
        }
    }
}

fn wait(canvas: &mut Canvas, case: &Case<'_>, call: &Call, y: f64) {
    let until = call.waited_until().unwrap_or(case.end);
    let color = color(call.key);
    let style = format!(r#"stroke="{color}" stroke-width="1.5" stroke-opacity="0.7""#);
    canvas.thread((call.called, until), y + ROW / 2.0, &style);
}

fn hold(canvas: &mut Canvas, case: &Case<'_>, call: &Call, y: f64) {
    let (Some(began), color) = (call.began(), color(call.key)) else {
        return;
    };
    let lease = call.proof().map_or(began.at, |proof| proof.at + proof.left);
    let over = call.over().unwrap_or(case.end);
    let is_lost = matches!(call.outcome(), Some(Outcome::Lost | Outcome::Revoked));
    let (sure, rest) = match call.outcome() {
        // Its lease runs out on the server.
        None => (over, over.max(lease)),
        Some(_) => (over.min(lease), over),
    };
    let outcome = call
        .outcome()
        .map_or("cut off".to_owned(), |outcome| format!("{outcome:?}"));
    let title = format!("{}, {outcome}", call.name());
    if rest > sure {
        let style = format!(
            r#"fill="{color}" fill-opacity="0.12" stroke="{color}" stroke-opacity="0.7" stroke-width="0.8" stroke-dasharray="2.5 2""#
        );
        canvas.mark(Mark::Lease, (sure, rest));
        canvas.bar((sure, rest), y + 1.5, ROW - 3.0, &style, &title);
    }
    canvas.bar(
        (began.at, sure),
        y,
        ROW,
        &format!(r#"fill="{color}""#),
        &title,
    );
    if is_lost && canvas.mark(Mark::Lost, (over, over)) {
        canvas.cross(canvas.x(over), y + ROW / 2.0, 3.6);
    }
}
