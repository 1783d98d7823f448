//! Parts that pages share.

use crate::assets::Assets;
use crate::claim::Who;
use crate::text::{duration, millis};
use maud::{DOCTYPE, Markup, html};
use std::time::SystemTime;

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

/// Returns a process in two lines.
pub(crate) fn who(who: &Who) -> Markup {
    html! {
        span .who { bdi { (who.name) } @if !who.place.is_empty() { small { bdi { (who.place) } } } }
    }
}

/// What writes the age of something.
#[derive(Clone, Copy)]
pub(crate) enum Clock {
    /// The script, which also keeps it up to date.
    Script,
    /// The page, at this moment, until the script goes on.
    Page(SystemTime),
    /// Nothing after this moment, when it was seen last.
    Stopped(SystemTime),
}

/// Returns the time since then.
pub(crate) fn age(since: SystemTime, clock: Clock) -> Markup {
    let until = |now| duration(crate::text::age(since, now));
    html! {
        @match clock {
            Clock::Script => span .age data-since=(millis(since)) {},
            Clock::Page(now) => span .age data-since=(millis(since)) { (until(now)) },
            Clock::Stopped(seen) => span { (until(seen)) },
        }
    }
}

/// Returns since when something is not known that was seen at that moment.
pub(crate) fn unknown(seen: Option<SystemTime>, clock: Clock) -> Markup {
    html! {
        strong .unknown { "Unknown" @if let Some(seen) = seen { " for " (age(seen, clock)) } }
        @if seen.is_some() { ": this is what was seen last" }
        @else { ", since the lock server does not reply" }
    }
}
