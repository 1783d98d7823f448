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

/// Returns the time since then, which the script keeps up to date.
pub(crate) fn age(since: SystemTime, now: Option<SystemTime>) -> Markup {
    html! {
        span .age data-since=(millis(since)) {
            @if let Some(now) = now { (duration(crate::text::age(since, now))) }
        }
    }
}
