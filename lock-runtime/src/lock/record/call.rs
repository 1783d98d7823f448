//! The records of a call until it has its lock, or ends without it.

use crate::error::LockError;
use crate::event::{LockEvent, Outcome};
use crate::lock::context::Context;
use crate::site::Purpose;
use crate::trace;
use crate::util::time::elapsed_since;
use std::time::Duration;
use tokio::time::Instant;

/// A call in progress. Dropping it reports that the call was canceled.
pub(crate) struct CallRecord<'a> {
    context: &'a Context,
    name: &'a str,
    purpose: &'a Purpose,
    started: Instant,
    tries_once: bool,
    is_open: bool,
}

impl<'a> CallRecord<'a> {
    pub(crate) fn begin(
        context: &'a Context,
        name: &'a str,
        purpose: &'a Purpose,
        (started, tries_once): (Instant, bool),
    ) -> CallRecord<'a> {
        CallRecord {
            context,
            name,
            purpose,
            started,
            tries_once,
            is_open: true,
        }
    }

    /// Reports the end of a call that acquires a lock. A success is reported with the guard that the caller
    /// gets.
    pub(crate) fn end<T>(mut self, result: Result<T, LockError>) -> Result<T, LockError> {
        self.is_open = false;
        result.inspect_err(|error| self.report(self.outcome(error), Some(error)))
    }

    /// Reports the end of a single try, for which a held lock is no error.
    pub(crate) fn end_try<T>(
        mut self,
        result: Result<Option<T>, LockError>,
    ) -> Result<Option<T>, LockError> {
        self.is_open = false;
        match &result {
            Ok(Some(_)) => {}
            Ok(None) => self.report(Outcome::Taken, None),
            Err(error) => self.report(self.outcome(error), Some(error)),
        }
        result
    }

    fn outcome(&self, error: &LockError) -> Outcome {
        Outcome::of(error, self.tries_once)
    }

    fn report(&self, outcome: Outcome, error: Option<&LockError>) {
        let waited = elapsed_since(self.started);
        let key = self.context.key_of(self.name);
        report(self.context, key, self.purpose, waited, (outcome, error));
    }
}

impl Drop for CallRecord<'_> {
    fn drop(&mut self) {
        if self.is_open {
            self.report(Outcome::Canceled, None);
        }
    }
}

/// Reports a call that ends before it begins, since its key or an option is invalid.
pub(crate) fn rejected(context: &Context, key: &str, purpose: &Purpose, error: &LockError) {
    let outcome = Outcome::of(error, false);
    // An invalid key may be of any length; its error has the beginning.
    let key = error.key().unwrap_or(key);
    report(
        context,
        key,
        purpose,
        Duration::ZERO,
        (outcome, Some(error)),
    );
}

fn report(
    context: &Context,
    key: &str,
    purpose: &Purpose,
    waited: Duration,
    (outcome, error): (Outcome, Option<&LockError>),
) {
    let event = LockEvent::NotAcquired {
        key,
        site: purpose.site,
        label: purpose.label(),
        waited,
        outcome,
        error,
    };
    trace::not_acquired(&event);
    context.telemetry.publish(&event);
}
