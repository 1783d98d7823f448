//! How long an engine waits for its servers.

use std::time::Duration;

/// How long to wait for what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    pub(crate) connect: Duration,
    /// A connection on which nothing has been answered for so long is given up.
    pub(crate) command: Duration,
}
