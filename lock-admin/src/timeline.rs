//! Drawings: who held which lock in the last minute, and how many were held.

use crate::history::{Bar, Lane, STEP, STEPS, WINDOW, step_of};
use crate::markup::{Clock, unknown};
use crate::state::State;
use crate::text::{age, duration, millis};
use maud::{Markup, html};
use std::time::SystemTime;

/// The width of the drawing, of which a unit is a tenth of a second.
const WIDTH: i64 = 600;

const HEIGHT: i64 = 16;

/// The height of a lock that a call holds, and of one that is kept.
const HELD: i64 = 12;
const KEPT: i64 = 6;

/// The number of shades for holders.
const SHADES: usize = 3;

/// After how many steps in which no lock was seen a line is interrupted: a look may be as rare as each 10 s.
const GAP: u64 = 3;

/// Returns who held which lock in the last minute. It changes when a hold begins or ends, and else each 5 s.
pub(crate) fn timeline(state: &State, clock: Clock) -> Markup {
    let lanes = &state.lanes;
    // Nothing is known of a bar after that.
    let seen = state.locks_seen.filter(|_| !state.knows_locks());
    let end = (step_of(state.at) + 1) * STEP.as_millis() as u64;
    let first = end.saturating_sub(WINDOW.as_millis() as u64);
    html! {
        section #timeline aria-labelledby="timeline-title" hidden[lanes.is_empty()] {
            div .title {
                h2 #timeline-title { "The last minute" }
                p {
                    "Who held what, while the page was open"
                    @if state.all_lanes > lanes.len() { ": " (lanes.len()) " of " (state.all_lanes) " locks, those that are waited for first" }
                    @if lanes.iter().any(has_kept) { "; thin: kept for the next call" }
                    @if seen.is_some() { ". " (unknown(seen, clock)) }
                }
            }
            ol {
                @for lane in lanes {
                    li {
                        a href={ "lock?" (lane.query) } { bdi { (lane.key) } }
                        div { (drawing(lane, first, seen)) }
                    }
                }
            }
            p .axis aria-hidden="true" { span { "1 min ago" } span { "30 s" } span { "now" } }
        }
    }
}

fn drawing(lane: &Lane, first: u64, seen: Option<SystemTime>) -> Markup {
    let x = |time: SystemTime| {
        let after = millis(time).saturating_sub(first);
        i64::try_from(after / 100).unwrap_or(WIDTH).min(WIDTH)
    };
    let ends = |bar: &Bar| (x(bar.from), bar.end().or(seen).map_or(WIDTH, x));
    let names = names(lane);
    let shade = |bar: &Bar| names.iter().position(|it| *it == bar.who).unwrap_or(0) % SHADES;
    html! {
        svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } preserveAspectRatio="none" role="img"
            aria-label={ @if has_kept(lane) { "Held or kept by " } @else { "Held by " } (names.join(", then ")) } {
            @for bar in &lane.bars {
                @let (from, to) = ends(bar);
                @let height = if bar.is_kept { KEPT } else { HELD };
                rect class={ "s" (shade(bar)) } x=(from) y=((HEIGHT - height) / 2) height=(height) width=((to - from).max(2)) {
                    title { (held(bar, seen)) }
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

fn held(bar: &Bar, seen: Option<SystemTime>) -> String {
    let kept = if bar.is_kept { ", kept" } else { "" };
    match bar.end() {
        Some(end) => format!("{}{kept}, for {}", bar.who, duration(age(bar.from, end))),
        None if seen.is_some() => format!("{}{kept}, when it was seen last", bar.who),
        None => format!("{}{kept}, now", bar.who),
    }
}

/// Returns how many locks were held in the last five minutes, with gaps where that is not known.
pub(crate) fn sparkline(held: &[(u64, u64)]) -> Markup {
    let most = held.iter().map(|(_, held)| *held).max().unwrap_or(0);
    let point = |(step, held): &(u64, u64)| {
        let y = 18.0 - 16.0 * *held as f64 / most.max(1) as f64;
        format!("{},{y:.1} ", step * 2)
    };
    let runs = held.chunk_by(|(before, _), (step, _)| step - before <= GAP);
    let lines = runs.map(|run| run.iter().map(point).collect::<String>());
    html! {
        svg .spark viewBox={ "0 0 " ((STEPS - 1) * 2) " 20" } preserveAspectRatio="none" role="img"
            aria-label={ "at most " (most) " held in the last five minutes" } {
            @for line in lines { polyline points=(line.trim_end()) {} }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_interrupted_where_no_lock_was_seen() {
        let lines =
            |held: &[(u64, u64)]| sparkline(held).into_string().matches("<polyline").count();
        assert_eq!(lines(&[]), 0);
        // A look each 10 s misses steps of 5 s.
        assert_eq!(lines(&[(0, 1), (2, 1), (5, 0)]), 1);
        assert_eq!(lines(&[(0, 1), (1, 1), (20, 1), (21, 1)]), 2);
    }
}
