//! The page, and its parts, each of which has an id and replaces itself.

use crate::assets::Assets;
use crate::lock_table::{empty, locks};
use crate::look::MOST;
use crate::markup::{Clock, age, document, unknown};
use crate::problem::{LONG_WAIT, NEWS, Problem};
use crate::state::State;
use crate::tables::{events, processes, servers, templates};
use crate::text::{count, duration, millis};
use crate::timeline::timeline;
use maud::{Markup, html};
use std::time::SystemTime;

/// The page in its folder: after `nest` axum finds nothing at `/locks/` in a router at `/locks`.
pub(crate) const OVERVIEW: &str = "overview";

/// How many problems are listed; the others are counted.
const PROBLEMS: usize = 8;

/// Returns the page, which names the look that it shows.
pub(crate) fn page(state: &State, look: &str, assets: &Assets, operator: Option<&str>) -> Markup {
    let clock = Clock::Page(state.at);
    let [
        summary,
        problems,
        figures,
        timeline,
        templates,
        processes,
        servers,
        events,
        note,
        // The table has it.
        _,
    ] = sections(state, clock).map(|(_, html)| html);
    let body = html! {
        body data-seen=(look) data-now=(millis(state.at)) {
            a .skip href="#locks" { "Skip to the locks" }
            header {
                p .brand { "Locks" }
                p .server { bdi { (state.server) } }
                p .live {
                    span #live { "Reloads each 5 s" }
                    @match operator {
                        Some(name) => span .mode { "You may revoke, as " (name) },
                        None => span .mode { "Read-only" },
                    }
                }
            }
            main {
                (summary)
                (problems)
                (figures)
                section #locks aria-labelledby="locks-title" tabindex="-1" {
                    div .title {
                        h2 #locks-title { "Locks in use" }
                        (note)
                        // The script shows it, since it filters.
                        label #filter hidden { "Filter" input type="search" autocomplete="off"; }
                    }
                    (locks(state, clock))
                }
                (timeline)
                (templates)
                (processes)
                div .two { (servers) (events) }
            }
            footer {
                p {
                    "Nothing is asked of the lock server while no page is open. "
                    a href="state.json" { "This page as JSON" }
                }
            }
        }
    };
    let title = match verdict(state) {
        Verdict::Well => "Locks".to_owned(),
        Verdict::Look => format!("({}) Locks", state.problems.len()),
        Verdict::Wrong => format!("! {}", headline(state)),
    };
    document(&title, assets, true, &body)
}

/// Returns the parts that change, but for the rows of locks. The clock writes ages.
pub(crate) fn sections(state: &State, clock: Clock) -> [(&'static str, Markup); 10] {
    [
        ("summary", summary(state)),
        ("problems", problems(state, clock)),
        ("figures", figures(state, clock)),
        ("timeline", timeline(state, clock)),
        ("templates", templates(state, clock)),
        ("processes", processes(state, clock)),
        ("servers", servers(state)),
        ("events", events(&state.events, clock)),
        ("note", note(state, clock)),
        ("empty", empty(state)),
    ]
}

#[derive(PartialEq)]
enum Verdict {
    Well,
    Look,
    Wrong,
}

fn verdict(state: &State) -> Verdict {
    match () {
        () if state.problems.iter().any(|it| it.is_bad) => Verdict::Wrong,
        () if !state.problems.is_empty() => Verdict::Look,
        () => Verdict::Well,
    }
}

fn headline(state: &State) -> String {
    match (verdict(state), sole(state)) {
        (Verdict::Well, _) => "All is well".to_owned(),
        (Verdict::Look, _) => "Locks work".to_owned(),
        (Verdict::Wrong, Some(problem)) => problem.title.clone(),
        (Verdict::Wrong, None) => {
            let bad = state.problems.iter().filter(|it| it.is_bad).count();
            format!("{bad} things are wrong")
        }
    }
}

/// Returns what is wrong, if it is one thing: it is the headline.
fn sole(state: &State) -> Option<&Problem> {
    let mut bad = state.problems.iter().filter(|it| it.is_bad);
    bad.next().filter(|_| bad.next().is_none())
}

/// Changes only when the verdict does, since it is read aloud.
fn summary(state: &State) -> Markup {
    let (class, explanation) = match verdict(state) {
        Verdict::Well => {
            let lately = match state.lost() {
                0 => String::new(),
                _ => format!(" in the last {}", duration(NEWS)),
            };
            let wait = duration(LONG_WAIT);
            let lost =
                format!("none was lost{lately}, and no process in a line has waited for {wait}");
            ("well", format!("Locks can be acquired, {lost}."))
        }
        Verdict::Look => {
            let things = count(state.problems.len() as u64, "thing");
            (
                "look",
                format!("Locks can be acquired. {things} to look at:"),
            )
        }
        Verdict::Wrong => {
            let details = sole(state).map(|it| it.details.clone());
            let all = || "A person has to look at them now:".to_owned();
            ("wrong", details.unwrap_or_else(all))
        }
    };
    html! {
        section #summary class=(class) aria-live="polite" aria-atomic="true" {
            h1 { bdi { (headline(state)) } }
            p { bdi { (explanation) } }
        }
    }
}

fn problems(state: &State, clock: Clock) -> Markup {
    let named = usize::from(sole(state).is_some());
    let listed = state.problems.get(named..).unwrap_or_default();
    html! {
        section #problems aria-label="What to look at" hidden[listed.is_empty()] {
            ol { @for it in listed.iter().take(PROBLEMS) { (problem(it, clock)) } }
            @if listed.len() > PROBLEMS { p .muted { "and " (listed.len() - PROBLEMS) " more" } }
        }
    }
}

fn problem(problem: &Problem, clock: Clock) -> Markup {
    html! {
        li class=(if problem.is_bad { "bad" } else { "mild" }) {
            p .what {
                span .word { (problem.word) }
                @match &problem.lock {
                    Some((_, query)) => a href={ "lock?" (query) } { bdi { (problem.title) } },
                    None => bdi { (problem.title) },
                }
                @if let Some(since) = problem.since { span .since { (age(since, clock)) } }
            }
            p .who { bdi { (problem.details) } }
        }
    }
}

fn figures(state: &State, clock: Clock) -> Markup {
    let figure = |name: &str, seen: Option<SystemTime>, value: Markup| {
        html! {
            div .past[seen != Some(state.at)] {
                dt { (name) }
                dd {
                    @if seen.is_some() { (value) } @else { small { "unknown" } }
                }
            }
        }
    };
    let (locks, processes) = (state.locks_seen, state.processes_seen);
    let kept = state.kept();
    html! {
        div #figures {
            @if !state.knows_locks() { p { (unknown(locks, clock)) } }
            dl {
                (figure("Held", locks, html! { (state.held()) @if kept > 0 { small { " and " (kept) " kept" } } }))
                (figure("Waiting", locks, html! { (state.waiting()) }))
                (figure("Processes", processes, html! { (state.processes.len()) }))
                (figure("Lost so far", processes, html! { (state.lost()) }))
            }
        }
    }
}

fn note(state: &State, clock: Clock) -> Markup {
    html! {
        p #note {
            @if !state.knows_locks() { (unknown(state.locks_seen, clock)) }
            @else if state.lacks_locks() {
                (state.listed()) " of " (state.held()) ": "
                @if state.is_cut { "the first " (MOST) " locks in the order of their keys" }
                @else { "of each process those that it has held longest" }
                ". The filter finds no others"
            }
            @else if state.locks.len() > 1 {
                "Held longest first"
                @if state.kept() > 0 { ", kept ones last" }
            }
        }
    }
}
