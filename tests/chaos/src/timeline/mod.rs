//! Draws a span of a schedule: the holds and the faults.

mod canvas;
mod faults;
mod legend;
mod workers;

use canvas::{Canvas, INK, LEFT};
use workers::Lanes;

use crate::checker::Case;
use crate::history::History;
use crate::journal::{EventKind, Outcome};

const TOP: f64 = 64.0;
const SECOND: u64 = 1_000_000_000;

/// Draws the events between `from` and `until` as SVG.
pub fn draw(history: &History, (from, until): (u64, u64), title: &str) -> String {
    let case = Case::new(history);
    let mut canvas = Canvas::new(from, until);
    let lanes = Lanes::of(&case, &canvas, TOP);
    canvas.text(LEFT, 24.0, r#" font-size="16" font-weight="600""#, title);
    let says = "Each colour is a lock: a bar for its holder, a thin line for each waiter. \
        No two workers have a bar of one colour at a time.";
    canvas.text(LEFT, 44.0, "", says);
    lanes.draw(&mut canvas, &case);
    let bottom = faults::draw(&mut canvas, &case, lanes.bottom() + 4.0);
    axis(&mut canvas, case.start, bottom);
    let height = legend::draw(&mut canvas, &lanes.keys, bottom + 44.0);
    canvas.finish(height, title)
}

/// Returns the span of `length` in which most faults occur and are noticed.
pub fn liveliest(history: &History, length: u64) -> (u64, u64) {
    let mut moments: Vec<(u64, u32)> = Vec::new();
    for fault in &history.faults {
        moments.push((fault.from, 3));
        moments.push((fault.until, 1));
    }
    for event in &history.events {
        match event.what {
            EventKind::Ended {
                outcome: Outcome::Lost,
            } => moments.push((event.at, 4)),
            EventKind::Acquired { .. } => moments.push((event.at, 0)),
            _ => {}
        }
    }
    let writes = history.writes.iter().filter(|write| !write.accepted);
    moments.extend(writes.map(|write| (write.at, 6)));
    moments.sort_unstable();
    let (mut first, mut sum, mut best) = (0, 0, (0, 0));
    for (at, weight) in &moments {
        sum += weight;
        while moments[first].0 + length < *at {
            sum -= moments[first].1;
            first += 1;
        }
        if sum > best.0 {
            best = (sum, *at);
        }
    }
    let begins = history.events.iter().map(|event| event.at).min();
    let begins = begins.unwrap_or(0);
    // Extend it a little past the last event.
    let until = (best.1 + length / 20).max(begins + length);
    (until - length, until)
}

fn axis(canvas: &mut Canvas, start: u64, bottom: f64) {
    let steps = [SECOND / 20, SECOND / 10, SECOND / 5, SECOND / 2, SECOND];
    let longer = [2, 5, 10, 30, 60, 300].map(|seconds| seconds * SECOND);
    let mut steps = steps.into_iter().chain(longer);
    let span = canvas.until - canvas.from;
    let step = steps.find(|step| span / step <= 10).unwrap_or(span);
    let mut at = start + (canvas.from.saturating_sub(start)).div_ceil(step) * step;
    while at <= canvas.until {
        let (x, top) = (canvas.x(at), TOP - 6.0);
        canvas.put(format_args!(
            r#"<path d="M{x:.1} {top:.1}V{bottom:.1}" stroke="{INK}" stroke-opacity="0.25" stroke-width="0.8"/>"#
        ));
        let seconds = (at - start) as f64 / SECOND as f64;
        let label = format!("{} s", (seconds * 100.0).round() / 100.0);
        canvas.text(x, bottom + 14.0, r#" text-anchor="middle""#, &label);
        at += step;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checker::tests::generated::{self, World};
    use crate::fault::{Fault, Kind};

    const WHOLE: (u64, u64) = (5 * SECOND, 12 * SECOND);

    fn history() -> History {
        let world = World {
            stops: true,
            forgets: true,
            last_first: false,
        };
        generated::history(world, 1)
    }

    fn titles(svg: &str) -> usize {
        svg.matches("<title>call").count()
    }

    #[test]
    fn every_hold_is_drawn() {
        let history = history();
        let holds = Case::new(&history).holds().count();
        let svg = draw(&history, WHOLE, "a & b");
        assert!(titles(&svg) >= holds, "{holds}");
        assert!(svg.contains("a &amp; b"));
        assert_eq!(svg.matches("<svg").count(), svg.matches("</svg>").count());
    }

    #[test]
    fn event_outside_the_window_is_not_drawn() {
        let history = history();
        let all = titles(&draw(&history, WHOLE, ""));
        let half = titles(&draw(&history, (5 * SECOND, 6 * SECOND), ""));
        assert!(half > 0 && half < all / 2, "{half} of {all}");
        assert_eq!(titles(&draw(&history, (90 * SECOND, 99 * SECOND), "")), 0);
    }

    #[test]
    fn legend_explains_only_visible_marks() {
        let mut history = history();
        let svg = draw(&history, WHOLE, "");
        for words in ["process stopped", "held twice", "late write", "lost it"] {
            assert!(svg.contains(words), "{words}");
        }
        assert!(!svg.contains("runtime dropped"));
        history.faults[0].kind = Kind::RuntimeDropped;
        history.faults[0].workers = vec![1];
        assert!(draw(&history, WHOLE, "").contains("runtime dropped"));
    }

    #[test]
    fn overlapping_faults_are_drawn_in_separate_rows() {
        let mut history = history();
        let server = |target: &str, from: u64| Fault {
            kind: Kind::ServerStopped,
            target: target.into(),
            from: 6 * SECOND + from,
            until: 7 * SECOND,
            workers: Vec::new(),
            forgotten: None,
            away: true,
            vain: false,
        };
        let mut height = |faults: Vec<Fault>| {
            history.faults = faults;
            let svg = draw(&history, WHOLE, "");
            let height = svg.split("height=\"").nth(1).unwrap();
            height.split('"').next().unwrap().parse::<f64>().unwrap()
        };
        let one = height(vec![server("server 1", 0)]);
        let two = height(vec![server("server 1", 0), server("server 1", 9)]);
        let apart = height(vec![server("server 1", 0), server("server 2", 9)]);
        assert!(one < two && two < apart, "{one} {two} {apart}");
    }

    #[test]
    fn liveliest_returns_the_span_with_most_events() {
        let mut history = history();
        history.faults.clear();
        history.writes.clear();
        let is_loss = |what: &EventKind| {
            matches!(
                what,
                EventKind::Ended {
                    outcome: Outcome::Lost
                }
            )
        };
        history.events.retain(|event| !is_loss(&event.what));
        let fault = |from| Fault {
            kind: Kind::Flushed,
            target: String::new(),
            from,
            until: from + 1,
            workers: Vec::new(),
            forgotten: None,
            away: false,
            vain: false,
        };
        let millis = |millis: u64| millis * 1_000_000;
        let faults = [7000, 7100, 7200, 8500].map(|at| fault(millis(at)));
        history.faults.extend(faults);
        let (from, until) = liveliest(&history, SECOND);
        assert_eq!(until - from, SECOND);
        assert!(
            from < millis(7000) && millis(7200) < until,
            "{from} {until}"
        );
    }
}
