//! A lane for each server, and one for the network, with the faults.

use std::collections::BTreeMap;

use super::canvas::{Canvas, INK, LEFT, Mark, RIGHT, TROUBLE, WIDTH};
use crate::checker::Case;
use crate::fault::{Fault, FaultTarget, Keys, Kind};
use crate::report::words;

const ROW: f64 = 15.0;
const BETWEEN: f64 = 7.0;
/// The approximate width of a letter.
const LETTER: f64 = 5.6;

/// Draws the lanes, and returns the lower end of the last one.
pub fn draw(canvas: &mut Canvas, case: &Case<'_>, top: f64) -> f64 {
    let mut lanes: BTreeMap<(bool, String), Vec<&Fault>> = BTreeMap::new();
    for fault in &case.history.faults {
        let is_shown = canvas.shows(fault.from, fault.until);
        if !hits_process(fault) && is_shown {
            let lane = (fault.kind.target() == FaultTarget::Network, topology(fault));
            lanes.entry(lane).or_default().push(fault);
        }
    }
    let mut y = top;
    for ((_, name), mut faults) in lanes {
        faults.sort_by_key(|fault| fault.from);
        // The position from which each row is free.
        let mut rows: Vec<f64> = Vec::new();
        let mut placed = Vec::new();
        for fault in faults {
            let (left, right) = (canvas.x(fault.from), canvas.x(fault.until));
            let label = label(fault);
            let wide = label.chars().count() as f64 * LETTER;
            // The label goes to the right of the bar if there is room.
            let fits = right + 5.0 + wide < WIDTH - RIGHT;
            let (from, until) = match fits {
                true => (left, right + 5.0 + wide),
                false => (left - 5.0 - wide, right),
            };
            let row = rows.iter().position(|free| *free <= from);
            let row = row.unwrap_or_else(|| {
                rows.push(0.0);
                rows.len() - 1
            });
            rows[row] = until + 10.0;
            placed.push((fault, row, fits, label));
        }
        let height = rows.len() as f64 * ROW;
        let style = r#" text-anchor="end" font-weight="600""#;
        canvas.text(LEFT - 10.0, y + height / 2.0 + 4.0, style, &name);
        let style = format!(r#"fill="{INK}" fill-opacity="0.1""#);
        canvas.bar((canvas.from, canvas.until), y, height, &style, "");
        for (fault, row, fits, label) in placed {
            let y = y + row as f64 * ROW;
            let opacity = if fault.away { 0.85 } else { 0.5 };
            let style = format!(r#"fill="{TROUBLE}" fill-opacity="{opacity}""#);
            let span = (fault.from, fault.until);
            canvas.bar(span, y + 4.0, ROW - 8.0, &style, &fault.target);
            let mark = if fault.away {
                Mark::Away
            } else {
                Mark::Trouble
            };
            canvas.mark(mark, span);
            let (at, style) = match fits {
                true => (canvas.x(fault.until) + 5.0, r#" font-size="11""#),
                false => (
                    canvas.x(fault.from) - 5.0,
                    r#" font-size="11" text-anchor="end""#,
                ),
            };
            canvas.text(at, y + 11.0, style, &label);
        }
        y += height + BETWEEN;
    }
    y
}

/// Returns `true` if the fault is drawn in its worker's lane.
fn hits_process(fault: &Fault) -> bool {
    match fault.kind.target() {
        FaultTarget::Process => true,
        FaultTarget::Clock => !fault.workers.is_empty(),
        _ => false,
    }
}

/// Returns the name of the fault's lane.
fn topology(fault: &Fault) -> String {
    if fault.kind.target() == FaultTarget::Network {
        return "network".to_owned();
    }
    let server = fault.target.rfind("server").map(|at| &fault.target[at..]);
    let server = server.and_then(|server| server.split(',').next());
    server.unwrap_or("servers").to_owned()
}

fn label(fault: &Fault) -> String {
    let words = match (fault.kind, fault.forgotten) {
        (Kind::KeyDeleted, Some(Keys::One(key))) => format!("key {key} deleted"),
        (Kind::KeyOverwritten, Some(Keys::One(key))) => format!("key {key} overwritten"),
        (kind, _) => words(kind),
    };
    let more = fault.target.split_once(", ").map(|(_, more)| more);
    match (&fault.workers[..], fault.kind.target(), more) {
        ([worker], FaultTarget::Network, _) => format!("{words}, worker {worker}"),
        (_, FaultTarget::Server | FaultTarget::Clock, Some(more)) => format!("{words}, {more}"),
        _ => words,
    }
}
