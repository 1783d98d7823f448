//! The records of a call while it waits for its turn.

use crate::lock::context::Context;
use crate::metrics::Active;
use crate::site::Purpose;
use crate::trace::WaitSpan;

/// A call that waits, until this is dropped.
pub(crate) struct WaitRecord<'a> {
    context: &'a Context,
    active: Active,
    _span: WaitSpan,
}

impl<'a> WaitRecord<'a> {
    pub(crate) fn begin(context: &'a Context, name: &str, purpose: &Purpose) -> WaitRecord<'a> {
        WaitRecord {
            context,
            active: context.telemetry.wait_begins(purpose.site),
            _span: WaitSpan::start(context.key_of(name), purpose),
        }
    }
}

impl Drop for WaitRecord<'_> {
    fn drop(&mut self) {
        self.context.telemetry.wait_ends(&self.active);
    }
}
