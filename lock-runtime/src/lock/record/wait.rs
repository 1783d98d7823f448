//! The records of a call while it waits for its turn.

use crate::lock::acquire::Acquire;
use crate::metrics::Active;
use crate::trace::WaitSpan;

/// A call that waits, until this is dropped.
pub(crate) struct WaitRecord<'a> {
    call: &'a Acquire,
    active: Active,
    _span: WaitSpan,
}

impl<'a> WaitRecord<'a> {
    pub(crate) fn begin(call: &'a Acquire) -> WaitRecord<'a> {
        let context = &call.inner.context;
        WaitRecord {
            call,
            active: context.telemetry.wait_begins(call.purpose.site),
            _span: WaitSpan::start(context.key_of(&call.name), &call.purpose),
        }
    }
}

impl Drop for WaitRecord<'_> {
    fn drop(&mut self) {
        let telemetry = &self.call.inner.context.telemetry;
        telemetry.wait_ends(&self.active);
    }
}
