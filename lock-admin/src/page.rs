//! The page, and its parts, each of which has an id and replaces itself.

use crate::assets::Assets;
use crate::claim::{Claim, Who};
use crate::lock::Lock;
use crate::look::MOST;
use crate::problem::Problem;
use crate::process::Process;
use crate::recorder::{Event, Quantiles};
use crate::state::{State, Template};
use crate::text::{count, duration, latency, millis};
use crate::timeline::{sparkline, timeline};
use maud::{DOCTYPE, Markup, html};
use std::time::SystemTime;

/// How many holders of a lock its row names.
const HOLDERS: usize = 3;

/// Returns a whole document.
pub(crate) fn document(title: &str, assets: &Assets, is_live: bool, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                link rel="stylesheet" href=(assets.style);
                @if is_live {
                    script src=(assets.script) defer {}
                    noscript { meta http-equiv="refresh" content="5"; }
                }
            }
            (body)
        }
    }
}

/// Returns the page, which names the look that it shows.
pub(crate) fn page(state: &State, look: &str, assets: &Assets, operator: Option<&str>) -> Markup {
    let now = Some(state.at);
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
    ] = sections(state, now).map(|(_, html)| html);
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
                    }
                    (locks(state, now))
                }
                (timeline)
                (templates)
                (processes)
                div .two { (servers) (events) }
            }
            footer {
                p {
                    "Nothing is asked of the lock server while nobody looks. "
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

/// Returns the parts that change, but for the rows of locks. Without `now` no ages are written: the script does that.
pub(crate) fn sections(state: &State, now: Option<SystemTime>) -> [(&'static str, Markup); 9] {
    [
        ("summary", summary(state)),
        ("problems", problems(state, now)),
        ("figures", figures(state)),
        ("timeline", timeline(&state.lanes, state.at)),
        ("templates", templates(state)),
        ("processes", processes(state, now)),
        ("servers", servers(state)),
        ("events", events(&state.events, now)),
        ("note", note(state)),
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
        Verdict::Well => (
            "well",
            "Locks can be acquired, none was lost, and nobody waits for long.".to_owned(),
        ),
        Verdict::Look => {
            let things = count(state.problems.len() as u64, "thing");
            ("look", format!("Nothing is broken. {things} to look at:"))
        }
        Verdict::Wrong => {
            let details = sole(state).map(|it| it.details.clone());
            let all = || "Somebody has to look at them now:".to_owned();
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

fn problems(state: &State, now: Option<SystemTime>) -> Markup {
    let told = usize::from(sole(state).is_some());
    let listed = state.problems.get(told..).unwrap_or_default();
    html! {
        section #problems aria-label="What to look at" hidden[listed.is_empty()] {
            ol { @for it in listed { (problem(it, now)) } }
        }
    }
}

fn problem(problem: &Problem, now: Option<SystemTime>) -> Markup {
    html! {
        li class=(if problem.is_bad { "bad" } else { "mild" }) {
            p .what {
                span .word { (if problem.is_bad { "Wrong" } else { "Look" }) }
                @match &problem.lock {
                    Some((_, query)) => a href={ "lock?" (query) } { bdi { (problem.title) } },
                    None => bdi { (problem.title) },
                }
                @if let Some(since) = problem.since { span .since { (age(since, now)) } }
            }
            p .who { bdi { (problem.details) } }
        }
    }
}

fn figures(state: &State) -> Markup {
    let figure = |name: &str, value: Markup| html! { div { dt { (name) } dd { (value) } } };
    html! {
        dl #figures {
            (figure("Held", html! { (state.held()) }))
            (figure("Waiting", html! { (state.waiting()) }))
            (figure("Processes", html! { (state.processes.len()) }))
            (figure("Lost so far", html! { (state.lost()) }))
        }
    }
}

fn note(state: &State) -> Markup {
    html! {
        p #note {
            @if state.is_cut { "The first " (MOST) ", in the order of their keys" }
            @else if state.locks.len() > 1 { "Held longest first" }
        }
    }
}

fn locks(state: &State, now: Option<SystemTime>) -> Markup {
    html! {
        div .table .locks role="table" aria-labelledby="locks-title" {
            div .head role="rowgroup" {
                div role="row" {
                    @for name in ["Lock", "Held by", "For", "Line"] {
                        span role="columnheader" { (name) }
                    }
                }
            }
            div #rows role="rowgroup" {
                @for lock in &state.locks { (row(lock, now)) }
            }
        }
        div .empty #empty {
            p { strong { "No lock is in use." } " A lock appears here when a process acquires it or waits for it." }
            p {
                "Try it: " code { "locks run demo -- sleep 60" }
                ". If there should be some: is it the same server, and the same prefix? On Redis the page shows what \
                 processes report, which " code { "Report::Off" } " turns off."
            }
        }
    }
}

/// Returns the row of a lock.
pub(crate) fn row(lock: &Lock, now: Option<SystemTime>) -> Markup {
    let place = lock
        .holders
        .iter()
        .find_map(|it| it.place.as_ref().or(it.template.as_ref()));
    let more = lock.holders.len().saturating_sub(HOLDERS);
    html! {
        div id=(lock.id) role="row" {
            div .key role="rowheader" {
                a href={ "lock?" (lock.query) } { bdi { (lock.key) } }
                @if let Some(place) = place { small { bdi { (place) } } }
            }
            div .holder role="cell" {
                @for holder in lock.holders.iter().take(HOLDERS) { (who(&holder.who)) (mode(holder)) }
                @if more > 0 { small { "and " (more) " more" } }
                @if lock.holders.is_empty() { span .muted { "on its way to the next" } }
            }
            div .for role="cell" {
                @if let Some(since) = lock.since() { (age(since, now)) }
            }
            div .line role="cell" { (line(lock, now)) }
        }
    }
}

fn mode(claim: &Claim) -> Markup {
    html! {
        @if claim.mode != "exclusive" { small { "shared: " (claim.mode) } }
        @if claim.never_ends() { small { "never ends" } }
    }
}

fn line(lock: &Lock, now: Option<SystemTime>) -> Markup {
    html! {
        @if lock.waiting == 0 { span .muted { "nobody waits" } }
        @else {
            strong { (lock.waiting) } " waiting"
            @if let Some(first) = lock.waiters.first() {
                small {
                    "first " bdi { (first.who.name) }
                    @if let Some(since) = first.since { " for " (age(since, now)) }
                }
            }
        }
    }
}

/// Returns a process in two lines.
pub(crate) fn who(who: &Who) -> Markup {
    html! {
        span .who { bdi { (who.name) } @if !who.place.is_empty() { small { bdi { (who.place) } } } }
    }
}

/// Returns the time since then, which the script keeps up to date.
pub(crate) fn age(since: SystemTime, now: Option<SystemTime>) -> Markup {
    html! {
        span .age data-since=(millis(since)) {
            @if let Some(now) = now { (duration(crate::text::age(since, now))) }
        }
    }
}

fn templates(state: &State) -> Markup {
    let note = match state.is_recorded {
        true => "Waits and holds: of the calls of this process, since it started",
        false => "Waits and holds: of those that go on, so far",
    };
    html! {
        section #templates aria-labelledby="templates-title" hidden[state.templates.is_empty()] {
            div .title {
                h2 #templates-title { "Templates" }
                p { (note) }
            }
            table {
                caption .hidden { "Where in the code locks are used. " (note) "." }
                thead { tr {
                    th scope="col" { "Template" }
                    th scope="col" .number { "Held" }
                    th scope="col" .number { "Waiting" }
                    th scope="col" .number { "Waits " small { "p50, p99" } }
                    th scope="col" .number { "Holds " small { "p50, p99" } }
                    th scope="col" .wide { "Held in 5 min" }
                } }
                tbody { @for template in &state.templates { (template_row(template)) } }
            }
        }
    }
}

fn template_row(template: &Template) -> Markup {
    html! {
        tr {
            th scope="row" { bdi { (template.name) } }
            td .number { (template.held) }
            td .number { (template.waiting) }
            td .number { (quantiles(template.waits)) }
            td .number { (quantiles(template.holds)) }
            td .wide { (sparkline(&template.spark)) }
        }
    }
}

fn quantiles(of: Option<Quantiles>) -> Markup {
    html! {
        @match of {
            Some((half, most)) => { span { (latency(half)) "," } " " span { (latency(most)) } }
            None => span .muted { "none" },
        }
    }
}

fn processes(state: &State, now: Option<SystemTime>) -> Markup {
    let number = |number: Option<u64>| {
        html! {
            td .number { @match number { Some(number) => (number), None => span .muted { "untold" } } }
        }
    };
    let row = |process: &Process| {
        html! {
            tr {
                th scope="row" {
                    (who(&process.who))
                    @if process.is_this { small { "serves this page" } }
                @if let Some(reported) = process.silent_since { small { "no word for " (age(reported, now)) } }
                }
                (number(process.held))
                (number(process.waiting))
                (number(process.lost))
                td .number { (age(process.started, now)) }
            }
        }
    };
    html! {
        section #processes aria-labelledby="processes-title" {
            div .title {
                h2 #processes-title { "Processes" }
                p { @if state.processes.is_empty() { "None has reported. One does with its first lock." } }
            }
            table hidden[state.processes.is_empty()] {
                caption .hidden { "The processes that use locks" }
                thead { tr {
                    th scope="col" { "Process" }
                    th scope="col" .number { "Held" }
                    th scope="col" .number { "Waiting" }
                    th scope="col" .number { "Lost" }
                    th scope="col" .number { "Up for" }
                } }
                tbody { @for process in &state.processes { (row(process)) } }
            }
        }
    }
}

fn servers(state: &State) -> Markup {
    html! {
        section #servers aria-labelledby="servers-title" {
            div .title { h2 #servers-title { "Servers" } }
            dl .facts {
                div { dt { "Address" } dd { bdi { (state.server) } } }
                div {
                    dt { "Reply" }
                    dd {
                        @match &state.ping {
                            Ok(_) => "locks can be acquired",
                            Err(reason) => bdi { "none: " (reason) },
                        }
                    }
                }
                div { dt { "Settings" } dd { @match state.warnings.len() {
                    0 => "no warnings",
                    1 => "1 warning, above",
                    more => { (more) " warnings, above" },
                } } }
            }
        }
    }
}

fn events(events: &[Event], now: Option<SystemTime>) -> Markup {
    html! {
        section #events aria-labelledby="events-title" {
            div .title { h2 #events-title { "Events" } }
            @if events.is_empty() { p .muted { "None since somebody began to watch." } }
            ol {
                @for event in events {
                    li class=(if event.is_bad { "bad" } else { "" }) {
                        span .word { (event.what) }
                        span .text {
                            @if let Some(key) = &event.key { bdi .name { (key) } " " }
                            bdi { (event.details) }
                        }
                        span .since { (age(event.at, now)) }
                    }
                }
            }
        }
    }
}
