//! Options that exclude each other. What depends on expressions, `lock_runtime` refuses at run time.

use std::time::Duration;

use syn::spanned::Spanned;
use syn::{Expr, Lit};

use crate::args::{Options, Release};
use crate::key::Key;
use crate::tokens::{error, literal};
use crate::values::DurationArg;

impl Options {
    /// Rejects the first conflict.
    pub(super) fn check(&self) -> syn::Result<()> {
        if let (Some(true), Some(permits)) = (self.read, &self.permits) {
            return Err(error(
                permits.span(),
                "a reader has no `permits`",
                "any number of readers share the lock; leave out `permits`, or `mode = \"read\"`",
            ));
        }
        if let (Some(min_hold), Some(max_hold)) = (&self.min_hold, &self.max_hold)
            && let (DurationArg::Literal(least, span), DurationArg::Literal(most, _)) =
                (min_hold, max_hold)
            && least > most
        {
            return Err(error(
                *span,
                "`min_hold` is longer than `max_hold`",
                "the lock cannot be held for longer than `max_hold`; lower one or raise the other",
            ));
        }
        if let (Some(false), Some(min_hold), Some(ttl)) = (self.renew, &self.min_hold, &self.ttl)
            && let (DurationArg::Literal(least, span), DurationArg::Literal(ttl, _)) =
                (min_hold, ttl)
            && *least > ttl.saturating_sub(*ttl / 100 + Duration::from_millis(2))
        {
            return Err(error(
                *span,
                "`min_hold` is longer than the lease, `ttl` less 1 % and 2 ms, which is not renewed",
                "lower `min_hold`, raise `ttl`, or leave out `renew = false`",
            ));
        }
        self.check_lazy()
    }

    /// Rejects a lazy release of what is not kept for the next call.
    fn check_lazy(&self) -> syn::Result<()> {
        let Some(Release {
            variant: "Lazy",
            span,
        }) = self.release
        else {
            return Ok(());
        };
        let (problem, help) = if self.read == Some(true) {
            (
                "a reader's lock is not kept for the next call",
                "leave out `release = \"lazy\"`, or `mode = \"read\"`",
            )
        } else if self.permits.as_ref().is_some_and(is_more_than_one) {
            (
                "a permit is not kept for the next call",
                "leave out `release = \"lazy\"`, or `permits`",
            )
        } else if matches!(&self.key, Some(Key::List(keys)) if keys.len() > 1) {
            (
                "the locks of several keys are not kept for the next call",
                "leave out `release = \"lazy\"`, or name one key",
            )
        } else if self.min_hold.is_some() {
            (
                "`min_hold` keeps the lock from the next call, and `lazy` keeps it for that call",
                "leave out `release = \"lazy\"`, or `min_hold`",
            )
        } else if self.renew == Some(false) {
            (
                "a lock that is not renewed is not kept for the next call, which would have the rest of its `ttl`",
                "leave out `release = \"lazy\"`, or `renew = false`",
            )
        } else {
            return Ok(());
        };
        Err(error(span, problem, help))
    }
}

/// Returns `true` for the literal of a number above 1; any other expression may be 1, which is an exclusive
/// lock.
fn is_more_than_one(permits: &Expr) -> bool {
    matches!(literal(permits), Some(Lit::Int(number)) if number.base10_parse().is_ok_and(|it: u64| it > 1))
}
