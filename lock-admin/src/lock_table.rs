//! The table of locks, whose rows are also sent one by one.

use crate::claim::Claim;
use crate::lock::Lock;
use crate::markup::{Clock, age, who};
use crate::state::State;
use maud::{Markup, html};

/// How many holders of a lock its row names.
const HOLDERS: usize = 3;

/// Returns the table.
pub(crate) fn locks(state: &State, clock: Clock) -> Markup {
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
                @for lock in &state.locks { (row(lock, state.clock_of_locks(clock))) }
            }
        }
        (empty(state))
    }
}

/// Returns what is shown in place of a table without rows.
pub(crate) fn empty(state: &State) -> Markup {
    html! {
        div .empty #empty {
            @if state.knows_locks() {
                p { strong { "No lock is in use." } " A lock appears here when a process acquires it or waits for it." }
                p {
                    "Try it: " code { "locks run demo -- sleep 60" }
                    ". If there should be some: is it the same server, and the same prefix? On Redis the page shows what \
                     processes report, which " code { "Report::Off" } " turns off."
                }
            } @else if state.locks_seen.is_some() {
                p { "No lock was in use when the lock server replied last." }
            } @else {
                p { "The locks appear here when the lock server replies." }
            }
        }
    }
}

/// Returns the row of a lock.
pub(crate) fn row(lock: &Lock, clock: Clock) -> Markup {
    let place = lock
        .holders
        .iter()
        .find_map(|it| it.place.as_ref().or(it.template.as_ref()));
    let more = lock.holders.len().saturating_sub(HOLDERS);
    html! {
        div id=(lock.id) .past[matches!(clock, Clock::Stopped(_))] role="row" {
            div .key role="rowheader" {
                a href={ "lock?" (lock.query) } { bdi { (lock.key) } }
                @if let Some(place) = place { small { bdi { (place) } } }
            }
            div .holder role="cell" {
                @for holder in lock.holders.iter().take(HOLDERS) { (who(&holder.who)) (mode(holder)) }
                @for rival in &lock.rivals { (who(&rival.who)) small .warn { "reports to hold it, too" } }
                @if more > 0 { small { "and " (more) " more" } }
                @if lock.holders.is_empty() { span .muted { "on its way to the next" } }
            }
            div .for role="cell" {
                @if let Some(since) = lock.since() { (age(since, clock)) }
            }
            div .line role="cell" { (line(lock, clock)) }
        }
    }
}

fn mode(claim: &Claim) -> Markup {
    html! {
        @if claim.mode != "exclusive" { small { "shared: " (claim.mode) } }
        @if claim.is_kept { small { "kept for its next call" } }
        @if claim.silent.is_some() { small .warn { "silent" } }
        @if claim.is_revoked { small .warn { "asked to stop" } }
        @if claim.never_ends() { small { "never ends" } }
    }
}

fn line(lock: &Lock, clock: Clock) -> Markup {
    html! {
        @if lock.waiting == 0 { span .muted { "none" } }
        @else {
            strong { (lock.waiting) } " waiting"
            @if let Some(first) = lock.waiters.first() {
                small {
                    "first " bdi { (first.who.name) }
                    @if first.silent.is_some() { ", silent," }
                    @if let Some(since) = first.since { " for " (age(since, clock)) }
                }
            }
        }
    }
}
