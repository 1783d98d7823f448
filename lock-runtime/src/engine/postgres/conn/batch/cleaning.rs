//! Removes rows that ended long ago: about once a minute, and at once while there are more.

use crate::engine::error::EngineError;
use crate::engine::postgres::conn::batch::request::{Request, Single};
use crate::util::backoff::fraction;
use crate::util::time::{deadline_in, now};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_postgres::Row;

/// How often they are removed, at most.
const PAUSE: Duration = Duration::from_secs(45);

pub(crate) struct Cleaning {
    /// When it is due again.
    at: Instant,
    /// The reply to the last request.
    cleaned: oneshot::Receiver<Result<Vec<Row>, EngineError>>,
}

impl Default for Cleaning {
    fn default() -> Self {
        Cleaning {
            at: now(),
            cleaned: oneshot::channel().1,
        }
    }
}

impl Cleaning {
    /// Returns the request, when it is due.
    pub(crate) fn request(&mut self) -> Option<Request> {
        let is_true = |row: &Row| row.try_get(0).unwrap_or(false);
        let more = match self.cleaned.try_recv() {
            Ok(Ok(rows)) => rows.first().is_some_and(is_true),
            _ => false,
        };
        if !more && now() < self.at {
            return None;
        }
        self.at = deadline_in(PAUSE + fraction(PAUSE * 2 / 3));
        let (reply, cleaned) = oneshot::channel();
        self.cleaned = cleaned;
        Some(Request::Single(Single {
            statement: "SELECT distributed_lock.clean_1()",
            parameters: Vec::new(),
            waits: None,
            reply,
        }))
    }
}
