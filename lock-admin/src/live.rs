//! What is sent to a viewer while it watches.

use crate::body::{Body, Events};
use crate::sampler::{Sampler, Seen};
use crate::text::millis;
use bytes::Bytes;
use http::request::Parts;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// After what time a stream ends, for the browser to continue it: a service that ends gracefully waits for
/// its responses.
const LENGTH: Duration = Duration::from_secs(15);

/// A viewer's place. It has no buffer: what a slow one gets next is the newest.
struct Live {
    seen: watch::Receiver<Option<Arc<Seen>>>,
    /// The name of the look that the viewer has.
    known: String,
    is_first: bool,
    end: Instant,
}

/// Returns the events after the look that the request names.
pub(crate) fn events(sampler: &Arc<Sampler>, parts: &Parts) -> Body {
    let continued = parts.headers.get("last-event-id");
    let continued = continued.and_then(|it| it.to_str().ok());
    let known = match continued {
        Some(known) => known.to_owned(),
        None => crate::query::value(parts.uri.query(), "since").unwrap_or_default(),
    };
    let end = LENGTH.max(sampler.interval() * 3);
    Body::events(Live {
        seen: sampler.watch(),
        known,
        is_first: true,
        end: Instant::now() + end,
    })
}

impl Events for Live {
    async fn next(mut self) -> Option<(Bytes, Live)> {
        if self.is_first {
            self.is_first = false;
            return Some((Bytes::from_static(b"retry: 500\n\n"), self));
        }
        loop {
            let changed = tokio::time::timeout_at(self.end, self.seen.changed()).await;
            changed.ok()?.ok()?;
            let Some(seen) = self.seen.borrow_and_update().clone() else {
                continue;
            };
            let fragments = &seen.fragments;
            let number = fragments.number_of(&self.known);
            self.known = fragments.name();
            let event = fragments.since(number, millis(seen.state.at));
            return Some((event.into(), self));
        }
    }
}
