//! Drawings: who held which lock in the last minute, and how many were held.

use crate::history::{Bar, Lane, STEP, STEPS, WINDOW, step_of};
use crate::text::{age, duration, millis};
use maud::{Markup, html};
use std::time::SystemTime;

/// The width of the drawing, of which a unit is a tenth of a second.
const WIDTH: i64 = 600;

const HEIGHT: i64 = 16;

/// The height of a lock that a call holds, and of one that is kept.
const HELD: i64 = 12;
const KEPT: i64 = 6;

/// In how many shades holders are told apart.
const SHADES: usize = 3;

/// Returns who held which lock in the last minute. It changes when a hold begins or ends, and else each 5 s.
pub(crate) fn timeline(lanes: &[Lane], at: SystemTime) -> Markup {
    let end = (step_of(at) + 1) * STEP.as_millis() as u64;
    let first = end.saturating_sub(WINDOW.as_millis() as u64);
    html! {
        section #timeline aria-labelledby="timeline-title" hidden[lanes.is_empty()] {
            div .title {
                h2 #timeline-title { "The last minute" }
                p {
                    "Who held what, while somebody watched"
                    @if lanes.iter().any(has_kept) { "; thin: kept for the next call" }
                }
            }
            ol {
                @for lane in lanes {
                    li {
                        a href={ "lock?" (lane.query) } { bdi { (lane.key) } }
                        div { (drawing(lane, first)) }
                    }
                }
            }
            p .axis aria-hidden="true" { span { "1 min ago" } span { "30 s" } span { "now" } }
        }
    }
}

fn drawing(lane: &Lane, first: u64) -> Markup {
    let x = |time: SystemTime| {
        let after = millis(time).saturating_sub(first);
        i64::try_from(after / 100).unwrap_or(WIDTH).min(WIDTH)
    };
    let ends = |bar: &Bar| (x(bar.from), bar.end().map_or(WIDTH, x));
    let names = names(lane);
    let shade = |bar: &Bar| names.iter().position(|it| *it == bar.who).unwrap_or(0) % SHADES;
    html! {
        svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } preserveAspectRatio="none" role="img"
            aria-label={ @if has_kept(lane) { "Held or kept by " } @else { "Held by " } (names.join(", then ")) } {
            @for bar in &lane.bars {
                @let (from, to) = ends(bar);
                @let height = if bar.is_kept { KEPT } else { HELD };
                rect class={ "s" (shade(bar)) } x=(from) y=((HEIGHT - height) / 2) height=(height) width=((to - from).max(2)) {
                    title { (held(bar)) }
                }
            }
        }
        small .names {
            @for (n, name) in names.iter().enumerate().take(SHADES) {
                span { svg viewBox="0 0 1 1" aria-hidden="true" { rect class={ "s" (n) } width="1" height="1" {} } bdi { (name) } }
            }
            @if names.len() > SHADES { span { "and " (names.len() - SHADES) " more" } }
        }
    }
}

fn has_kept(lane: &Lane) -> bool {
    lane.bars.iter().any(|bar| bar.is_kept)
}

/// Returns who held the lock, in the order in which they did.
fn names(lane: &Lane) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for bar in &lane.bars {
        if !names.contains(&&*bar.who) {
            names.push(&bar.who);
        }
    }
    names
}

fn held(bar: &Bar) -> String {
    let kept = if bar.is_kept { ", kept" } else { "" };
    match bar.end() {
        Some(end) => format!("{}{kept}, for {}", bar.who, duration(age(bar.from, end))),
        None => format!("{}{kept}, now", bar.who),
    }
}

/// Returns how many locks were held in the last five minutes.
pub(crate) fn sparkline(held: &[u64]) -> Markup {
    let most = held.iter().copied().max().unwrap_or(0);
    let points = held.iter().enumerate().map(|(i, held)| {
        let y = 18.0 - 16.0 * *held as f64 / most.max(1) as f64;
        format!("{},{y:.1} ", i * 2)
    });
    let points: String = points.collect();
    html! {
        svg .spark viewBox={ "0 0 " ((STEPS - 1) * 2) " 20" } preserveAspectRatio="none" role="img"
            aria-label={ "at most " (most) " held in the last five minutes" } {
            polyline points=(points.trim_end()) {}
        }
    }
}
