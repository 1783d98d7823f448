//! What is told of a call while it waits for its turn.

use crate::lock::acquire::Acquire;
use crate::trace::WaitSpan;

/// A call that waits, until this is dropped.
pub(crate) struct WaitRecord<'a> {
    call: &'a Acquire,
    _span: WaitSpan,
}

impl<'a> WaitRecord<'a> {
    pub(crate) fn begin(call: &'a Acquire) -> WaitRecord<'a> {
        let context = &call.inner.context;
        context.telemetry.wait_begins(call.purpose.site);
        WaitRecord {
            call,
            _span: WaitSpan::start(context.key_of(&call.name), &call.purpose),
        }
    }
}

impl Drop for WaitRecord<'_> {
    fn drop(&mut self) {
        let Acquire { inner, purpose, .. } = self.call;
        inner.context.telemetry.wait_ends(purpose.site);
    }
}
