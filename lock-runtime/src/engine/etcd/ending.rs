//! How far the end of a claim is.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::timeouts::NO_REPLY;
use crate::util::io_thread::IoThread;
use std::future::pending;
use tokio::sync::watch;
use tokio::time::Instant;

/// How far the end of a claim is.
#[derive(Clone, Debug)]
pub(super) enum Ending {
    Begun,
    Failed(EngineError),
    /// `true` if the claim was in the line until then.
    Done(bool),
}

/// Waits for the end of a claim. Returns `true` if the claim was in line.
pub(super) async fn ended(
    mut ending: watch::Receiver<Ending>,
    io: IoThread,
    deadline: Instant,
) -> Result<bool, EngineError> {
    let mut last = None;
    loop {
        match &*ending.borrow_and_update() {
            Ending::Done(was_there) => return Ok(*was_there),
            Ending::Failed(error) if !error.is_retryable() => return Err(error.clone()),
            Ending::Failed(error) => last = Some(error.clone()),
            Ending::Begun => {}
        }
        match io.timeout_at(deadline, ending.changed()).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => pending().await,
            Err(_) => break,
        }
    }
    // It continues, and may be carried out.
    let words = NO_REPLY.to_owned();
    let words = last.map_or(words, |error| error.to_string());
    Err(EngineError::new(EngineErrorKind::Indeterminate, words))
}
