//! Getting a lock back from the holder that the form names.

use crate::body::Body;
use crate::lock_page::{REASON, message, named};
use crate::look::reason;
use crate::options::Options;
use crate::query;
use crate::sampler::Sampler;
use crate::security::{BODY_LIMIT, is_form, is_same_origin, plain};
use crate::text::{age, latency, visible};
use bytes::Bytes;
use http::request::Parts;
use http::{Response, StatusCode};
use lock_runtime::Revocation;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// For how long the holder may take to stop.
const GRACE: Duration = Duration::from_secs(5);

/// For how long a form is accepted.
const LONGEST: Duration = Duration::from_secs(60 * 60);

/// The same of a holder whose process had not reported which of its calls has the lock.
const UNREPORTED: Duration = Duration::from_secs(10);

/// Answers the form.
pub(crate) async fn revoke(
    options: &Options,
    sampler: &Sampler,
    parts: &Parts,
    body: &Bytes,
) -> Response<Body> {
    if !is_same_origin(parts) {
        return plain(StatusCode::FORBIDDEN, "the request is not from this page\n");
    }
    let Some(operator) = options.may_revoke(parts) else {
        return plain(StatusCode::FORBIDDEN, "the page is read-only for you\n");
    };
    if body.len() > BODY_LIMIT {
        return plain(StatusCode::PAYLOAD_TOO_LARGE, "the form is too long\n");
    }
    let text = std::str::from_utf8(body).ok();
    if !is_form(parts) || text.is_none() {
        return plain(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "the page sends a form\n",
        );
    }
    let field = |name: &str| query::value(text, name);
    let why = field("reason").filter(|it| !it.trim().is_empty() && it.chars().count() <= REASON);
    let seen = field("seen").and_then(|it| it.parse().ok());
    let (Some(token), Some(seen), Some(why)) = (field("holder"), seen, why) else {
        return plain(StatusCode::BAD_REQUEST, "the form is not complete\n");
    };
    let Some(named) = named(sampler, text).await else {
        return stale();
    };
    let handoffs = field("handoffs").and_then(|it| it.parse().ok());
    let longest = if handoffs.is_some() {
        LONGEST
    } else {
        UNREPORTED
    };
    if since(seen) > longest {
        return stale();
    }
    // What was reported before may be of an earlier body.
    let _ = options.manager.ask_for_reports().await;
    let found = match options.manager.inspect(&named.key).await {
        Ok(found) => found,
        Err(error) => return failed(&reason(&error)),
    };
    let mut holders = found.holders().iter();
    if !holders.any(|it| it.token() == token) {
        return stale();
    }
    let mut revoke = options.manager.revoke(&*named.key).token(token);
    // The call that was shown.
    if let Some(handoffs) = handoffs {
        revoke = revoke.handoffs(handoffs);
    }
    let revoked = revoke.by(operator).reason(why).grace(GRACE).await;
    let key = options.shown(&named.key);
    match revoked {
        Ok(Revocation::Stopped { after, .. }) => {
            let text = format!(
                "That took {}. The lock is free, or with the next in line.",
                latency(after)
            );
            message(StatusCode::OK, &format!("{key} was given up"), &text)
        }
        Ok(Revocation::Unconfirmed { .. }) => {
            let text = "The lock is free, or with the next in line, but its process has not answered. Unless it has released the \
                        lock, the lease has ended, or another has taken it, and the body may still run.";
            message(StatusCode::OK, &format!("{key} is held no more"), text)
        }
        Ok(Revocation::NotHeld) => stale(),
        Ok(_) => {
            let text = "It was asked, and still holds the lock: its process does not hear, or its body comes to no await. \
                        `locks revoke --force` takes the lock away, and says what that costs.";
            message(StatusCode::CONFLICT, &format!("{key} is still held"), text)
        }
        Err(error) => failed(&reason(&error)),
    }
}

/// Returns the time since a page was made.
fn since(millis: u64) -> Duration {
    let then = UNIX_EPOCH.checked_add(Duration::from_millis(millis));
    then.map_or(Duration::MAX, |then| age(then, SystemTime::now()))
}

fn stale() -> Response<Body> {
    let text = "The one that the page showed does not hold the lock any more. Look who has it now.";
    message(StatusCode::CONFLICT, "Nothing was revoked", text)
}

fn failed(reason: &str) -> Response<Body> {
    let status = StatusCode::SERVICE_UNAVAILABLE;
    message(status, "The lock server doesn't do it", &visible(reason))
}
