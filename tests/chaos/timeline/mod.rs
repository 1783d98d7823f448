//! A picture of a stretch of a schedule: who held what when, and what went wrong.

mod canvas;
mod faults;
mod workers;

use canvas::{Canvas, INK, LEFT, RIGHT, TROUBLE, WIDTH, color};
use workers::Lanes;

use crate::checker::Case;
use crate::event::{How, What};
use crate::history::History;

const TOP: f64 = 64.0;
const SECOND: u64 = 1_000_000_000;

/// What went on from then until then, as SVG.
pub fn draw(history: &History, (from, until): (u64, u64), title: &str) -> String {
    let case = Case::new(history);
    let mut canvas = Canvas::new(from, until);
    let lanes = Lanes::of(&case, &canvas, TOP);
    canvas.text(LEFT, 24.0, r#" font-size="16" font-weight="600""#, title);
    let says = "Each colour is a lock. Who has it is a bar, who waits for it a thin line: \
        at no time do two workers have a bar of one colour.";
    canvas.text(LEFT, 44.0, "", says);
    lanes.draw(&mut canvas, &case);
    let bottom = faults::draw(&mut canvas, &case, lanes.bottom() + 4.0);
    axis(&mut canvas, case.start, bottom);
    let height = legend(&mut canvas, &lanes.keys, bottom + 44.0);
    canvas.finish(height, title)
}

/// The stretch of that length in which most goes wrong and is noticed.
pub fn liveliest(history: &History, length: u64) -> (u64, u64) {
    let mut told: Vec<(u64, u32)> = Vec::new();
    for fault in &history.faults {
        told.push((fault.from, 3));
        told.push((fault.until, 1));
    }
    for event in &history.events {
        match event.what {
            What::Ended { how: How::Lost } => told.push((event.at, 4)),
            What::Acquired { .. } => told.push((event.at, 0)),
            _ => {}
        }
    }
    let writes = history.writes.iter().filter(|write| !write.accepted);
    told.extend(writes.map(|write| (write.at, 6)));
    told.sort_unstable();
    let (mut first, mut sum, mut best) = (0, 0, (0, 0));
    for (at, weight) in &told {
        sum += weight;
        while told[first].0 + length < *at {
            sum -= told[first].1;
            first += 1;
        }
        if sum > best.0 {
            best = (sum, *at);
        }
    }
    let begins = history.events.iter().map(|event| event.at).min();
    let begins = begins.unwrap_or(0);
    // A little after the last of it.
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

fn legend(canvas: &mut Canvas, keys: &[u32], y: f64) -> f64 {
    let bar = |canvas: &mut Canvas, x: f64, wide: f64, style: &str| {
        let y = y - 8.5;
        canvas.put(format_args!(
            r#"<rect x="{x:.1}" y="{y:.1}" width="{wide}" height="8" rx="1.5" {style}/>"#
        ));
    };
    let mut x = LEFT;
    for key in keys {
        let color = color(*key);
        bar(canvas, x, 12.0, &format!(r#"fill="{color}""#));
        let line = y - 4.5;
        let right = x + 12.0;
        canvas.put(format_args!(
            r#"<path d="M{right:.1} {line:.1}h12" stroke="{color}" stroke-width="1.5" stroke-opacity="0.55"/>"#
        ));
        x = says(canvas, x + 30.0, y, &format!("lock {key}"));
    }
    let ink = color(keys.first().copied().unwrap_or(0));
    bar(
        canvas,
        x,
        20.0,
        &format!(
            r#"fill="{ink}" fill-opacity="0.12" stroke="{ink}" stroke-dasharray="2.5 2" stroke-width="0.8""#
        ),
    );
    x = says(canvas, x + 26.0, y, "its lease has yet to run out");
    bar(canvas, x, 20.0, r#"fill="url(#stopped)""#);
    x = says(canvas, x + 26.0, y, "stopped");
    bar(
        canvas,
        x,
        20.0,
        &format!(r#"fill="{TROUBLE}" fill-opacity="0.85""#),
    );
    says(canvas, x + 26.0, y, "out of service");
    let y = y + 22.0;
    x = LEFT;
    canvas.cross(x + 5.0, y - 4.5, 3.6);
    x = says(canvas, x + 15.0, y, "noticed that it has lost it");
    canvas.triangle(x + 5.0, y - 4.5, 4.5);
    x = says(
        canvas,
        x + 15.0,
        y,
        "its write comes too late and is refused",
    );
    canvas.diamond(x + 6.0, y - 4.5, 5.5);
    says(
        canvas,
        x + 16.0,
        y,
        "held twice, as a server has forgotten it",
    );
    debug_assert!(x < WIDTH - RIGHT);
    y + 16.0
}

/// Says so there, and where the next may begin.
fn says(canvas: &mut Canvas, x: f64, y: f64, text: &str) -> f64 {
    canvas.text(x, y, "", text);
    x + text.chars().count() as f64 * 6.2 + 16.0
}
