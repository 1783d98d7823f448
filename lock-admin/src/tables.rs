//! The lists below the locks.

use crate::markup::{Clock, age, unknown, who};
use crate::process::Process;
use crate::recorder::{Event, Quantiles};
use crate::state::{EVENTS, State};
use crate::template::Template;
use crate::text::latency;
use crate::timeline::sparkline;
use maud::{Markup, html};

pub(crate) fn templates(state: &State, clock: Clock) -> Markup {
    let note = match state.is_recorded {
        true => "Waits and holds: of the calls of this process, since it started",
        false => "Waits and holds: of those that go on, so far",
    };
    html! {
        section #templates .past[!state.knows_locks()] aria-labelledby="templates-title" hidden[state.templates.is_empty()] {
            div .title {
                h2 #templates-title { "Templates" }
                p { (note) @if state.lacks_locks() { ". Held and waiting: of the locks that are listed" } @if !state.knows_locks() { ". " (unknown(state.locks_seen, clock)) } }
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
                tbody { @for template in &state.templates { (template_row(template, state.locks_seen.is_some())) } }
                @if state.templates.len() > 1 && state.locks_seen.is_some() {
                    tfoot { tr {
                        th scope="row" { "All" }
                        td .number { (state.held()) }
                        td .number { (state.waiting()) }
                        td {} td {} td .wide {}
                    } }
                }
            }
        }
    }
}

fn template_row(template: &Template, is_known: bool) -> Markup {
    let number = |number: u64| {
        html! {
            td .number { @if is_known { (number) } @else { span .muted { "unknown" } } }
        }
    };
    html! {
        tr {
            th scope="row" { bdi { (template.name) } }
            (number(template.held))
            (number(template.waiting))
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

pub(crate) fn processes(state: &State, clock: Clock) -> Markup {
    let own = state.clock_of_processes(clock);
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
                @if let Some(reported) = process.silent_since { small { "no word for " (age(reported, own)) } }
                }
                (number(process.held))
                (number(process.waiting))
                (number(process.lost))
                td .number { (age(process.started, own)) }
            }
        }
    };
    html! {
        section #processes .past[!state.knows_processes()] aria-labelledby="processes-title" {
            div .title {
                h2 #processes-title { "Processes" }
                p {
                    @if !state.knows_processes() { (unknown(state.processes_seen, clock)) }
                    @else if state.processes.is_empty() { "None has reported. One does with its first lock." }
                }
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

pub(crate) fn servers(state: &State) -> Markup {
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
                div { dt { "Settings" } dd { @match state.warnings.as_deref() {
                    None => "unknown",
                    Some([]) => "no warnings",
                    Some([_]) => "1 warning, above",
                    Some(more) => { (more.len()) " warnings, above" },
                } } }
            }
        }
    }
}

pub(crate) fn events(events: &[Event], clock: Clock) -> Markup {
    html! {
        section #events aria-labelledby="events-title" {
            div .title { h2 #events-title { "Events" } @if events.len() >= EVENTS { p { "The last " (EVENTS) } } }
            @if events.is_empty() { p .muted { "None since the page was opened." } }
            ol {
                @for event in events {
                    li class=(if event.is_bad { "bad" } else { "" }) {
                        span .word { (event.what) }
                        span .text {
                            @if let Some(key) = &event.key { bdi .name { (key) } " " }
                            bdi { (event.details) }
                        }
                        span .since { (age(event.at, clock)) }
                    }
                }
            }
        }
    }
}
