//! The timeouts of an engine.

use std::time::Duration;

/// How long an engine waits for its servers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    pub(crate) connect: Duration,
    /// A connection without a reply for this long is abandoned.
    pub(crate) command: Duration,
}
