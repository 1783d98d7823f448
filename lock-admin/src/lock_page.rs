//! One lock in detail, with the form that revokes it.

use crate::assets::Assets;
use crate::claim::Claim;
use crate::look::reason;
use crate::markup::{Clock, age, document, who};
use crate::page::OVERVIEW;
use crate::query;
use crate::sampler::Sampler;
use crate::security::{Keep, respond};
use crate::text::{count, duration, millis, visible};
use http::request::Parts;
use http::{Response, StatusCode};
use lock_runtime::LockInfo;
use maud::{Markup, html};
use std::time::SystemTime;

use crate::body::Body;

/// The greatest length of a reason.
pub(crate) const REASON: usize = 200;

const HTML: &str = "text/html; charset=utf-8";

/// What names a lock in a link or a form.
pub(crate) struct Named {
    pub(crate) key: String,
    /// The name and the value of the field that names it.
    pub(crate) field: (&'static str, String),
}

/// Returns the lock that is named by its key, or where keys are redacted by the token of a claim that was
/// seen on it.
pub(crate) async fn named(sampler: &Sampler, query: Option<&str>) -> Option<Named> {
    let options = &sampler.options;
    if options.redact.is_none() {
        let key = query::value(query, "key")?;
        let field = ("key", key.clone());
        return Some(Named { key, field });
    }
    let token = query::value(query, "token")?;
    let seen = sampler.look().await;
    let mut locks = seen.keys.iter();
    let key = locks.find(|(tokens, _)| tokens.contains(&token))?.1.clone();
    Some(Named {
        key,
        field: ("token", token),
    })
}

pub(crate) async fn respond_with(sampler: &Sampler, parts: &Parts) -> Response<Body> {
    let Some(named) = named(sampler, parts.uri.query()).await else {
        let text = "This lock is not in use any more, or not as it was when the link was made.";
        return message(StatusCode::NOT_FOUND, "Not in use", text);
    };
    let options = &sampler.options;
    let _ = options.manager.ask_for_reports().await;
    let found = match options.manager.inspect_with_rivals(&named.key).await {
        Ok(found) => found,
        Err(error) => {
            let status = StatusCode::SERVICE_UNAVAILABLE;
            return message(
                status,
                "The lock server doesn't say",
                &visible(&reason(&error)),
            );
        }
    };
    let operator = options.may_revoke(parts);
    let shown = options.shown(&named.key);
    let html = page(&shown, &named, &found, operator.as_deref());
    respond(StatusCode::OK, HTML, Keep::Never, html.into_string())
}

/// Returns a page with a message, and the way back.
pub(crate) fn message(status: StatusCode, title: &str, text: &str) -> Response<Body> {
    let main = html! {
        h1 { bdi { (title) } }
        p .lead { bdi { (text) } }
    };
    let html = framed(title, &main);
    respond(status, HTML, Keep::Never, html.into_string())
}

fn framed(title: &str, main: &Markup) -> Markup {
    let body = html! {
        body .one {
            header {
                p .brand { a href=(OVERVIEW) { "Locks" } }
            }
            main { p .back { a href=(OVERVIEW) { "← All locks" } } (main) }
        }
    };
    document(title, Assets::get(), false, &body)
}

fn page(key: &str, named: &Named, found: &LockInfo, operator: Option<&str>) -> Markup {
    let now = SystemTime::now();
    let claims = |all: &[lock_runtime::ClaimInfo]| -> Vec<Claim> {
        all.iter().map(|claim| Claim::of(claim, now)).collect()
    };
    let (holders, waiters) = (claims(found.holders()), claims(found.waiters()));
    let rivals = claims(found.rivals());
    let rest = found.waiting().saturating_sub(waiters.len() as u64);
    let main = html! {
        h1 .key { bdi { (key) } }
        p .lead {
            @match holders.len() {
                0 if found.waiting() == 0 => "Free: without a holder or a waiter.",
                0 => "On its way to the next in line.",
                1 if holders[0].is_kept => "Kept by a process for its next call, until another process waits for it.",
                1 => "Held.",
                many => { "Shared by " (many) "." },
            }
            @if !rivals.is_empty() {
                strong .warn { " Two may run at once: another process reports to hold it, too. Make sure that one stops." }
            }
            " "
            a href={ "lock?" (link(named)) } { "Look again" }
        }
        @for holder in &holders { (card(holder, now, named, operator)) }
        // The server knows nothing of these, so they are not asked.
        @for rival in &rivals { (card(rival, now, named, None)) }
        @if found.waiting() > 0 {
            section aria-labelledby="line-title" {
                div .title { h2 #line-title { "Line" } p { (count(found.waiting(), "process")) } }
                table {
                    caption .hidden { "Those who wait, in the order in which they get the lock" }
                    thead { tr {
                        th scope="col" { "Process" }
                        th scope="col" { "Wants it" }
                        th scope="col" .number { "Calls" }
                        th scope="col" .number { "For" }
                    } }
                    tbody { @for waiter in &waiters { tr {
                        th scope="row" { (who(&waiter.who)) @if waiter.silent.is_some() { small .warn { "silent" } } }
                        td { (waiter.mode) }
                        td .number { (waiter.callers) }
                        td .number { @if let Some(since) = waiter.since { (age(since, Clock::Page(now))) } }
                    } } }
                }
                @if rest > 0 { p .muted { "and " (rest) " more" } }
            }
        }
    };
    framed(key, &main)
}

fn link(named: &Named) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair(named.field.0, &named.field.1).finish()
}

fn card(holder: &Claim, now: SystemTime, named: &Named, operator: Option<&str>) -> Markup {
    let fact = |name: &str, value: Option<&str>| {
        html! {
            @if let Some(value) = value { div { dt { (name) } dd { bdi { (value) } } } }
        }
    };
    let votes = holder
        .votes
        .map(|(votes, members)| format!("{votes} of {members} members"));
    let token = visible(&holder.token);
    html! {
        section .card aria-label={ (holder.verb()) " by " (holder.who.name) } {
            h2 { (who(&holder.who)) }
            dl .facts {
                @if let Some(since) = holder.since {
                    div { dt { (holder.verb()) " for" } dd {
                        @if holder.is_at_most { "at most " }
                        (age(since, Clock::Page(now)))
                    } }
                }
                @if let Some(silent) = holder.silent {
                    div { dt { "Silent for" } dd .warn { (duration(silent)) ": its process is stopped or cut off, or has ended" } }
                }
                @if holder.is_revoked { div { dt { "Revoked" } dd .warn { "asked to stop, and has not yet" } } }
                (fact("How", Some(&holder.mode)))
                (fact("Where", holder.place.as_deref()))
                (fact("Template", holder.template.as_deref()))
                (fact("Label", holder.label.as_deref()))
                (fact("Lease", Some(&holder.lease())))
                (fact("Votes", votes.as_deref()))
                (fact("Token", Some(&token)))
            }
            @if operator.is_some() { (form(holder, now, named)) }
        }
    }
}

fn form(holder: &Claim, now: SystemTime, named: &Named) -> Markup {
    let (name, value) = &named.field;
    html! {
        form method="post" action="revoke" {
            input type="hidden" name=(name) value=(value);
            input type="hidden" name="holder" value=(holder.token);
            input type="hidden" name="seen" value=(millis(now));
            @if let Some(handoffs) = holder.handoffs {
                input type="hidden" name="handoffs" value=(handoffs);
            }
            label {
                @if holder.is_kept { "Why it has to give the lock back" } @else { "Why it has to stop" }
                input type="text" name="reason" required maxlength=(REASON) autocomplete="off";
            }
            button type="submit" { @if holder.is_kept { "Ask for it" } @else { "Ask it to stop" } }
            p .muted {
                @if holder.is_kept {
                    "No call has the lock, so none is canceled: its process gives it back at once. A call that has begun \
                     meanwhile goes on."
                } @else {
                    "Its body is canceled at its next await, and the next in line gets the lock: there are never two \
                     holders. Both processes log your name and the reason."
                }
            }
        }
    }
}
