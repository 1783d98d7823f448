//! The end of a claim, which happens in the background, whoever still waits for it.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::timeouts::NO_REPLY;
use crate::util::io_thread::IoThread;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::time::Instant;

/// How far the end of a claim is.
#[derive(Clone)]
pub(crate) struct Ending(Arc<watch::Sender<State>>);

enum State {
    Open,
    Begun,
    /// It is repeated.
    Failed(EngineError),
    /// `true` if the claim was in line until then.
    Done(bool),
}

impl Default for Ending {
    fn default() -> Ending {
        Ending(Arc::new(watch::Sender::new(State::Open)))
    }
}

impl Ending {
    /// Begins the end. Returns `false` if that has been done.
    pub(crate) fn begin(&self) -> bool {
        self.0.send_if_modified(|state| {
            let is_open = matches!(state, State::Open);
            if is_open {
                *state = State::Begun;
            }
            is_open
        })
    }

    pub(crate) fn has_begun(&self) -> bool {
        !matches!(*self.0.borrow(), State::Open)
    }

    /// Reports that a try has failed; others follow.
    pub(crate) fn fail(&self, error: EngineError) {
        self.0.send_replace(State::Failed(error));
    }

    /// Reports the end, and whether the claim was in line until then.
    pub(crate) fn finish(&self, was_in_line: bool) {
        self.0.send_replace(State::Done(was_in_line));
    }

    /// Waits for the end, which continues if that takes longer or is refused. Returns `true` if the claim was
    /// in line.
    pub(crate) async fn finished(
        &self,
        io: IoThread,
        deadline: Instant,
    ) -> Result<bool, EngineError> {
        let mut state = self.0.subscribe();
        let is_known = |state: &State| match state {
            State::Done(_) => true,
            State::Failed(error) => !error.is_retryable(),
            State::Open | State::Begun => false,
        };
        let _ = io.timeout_at(deadline, state.wait_for(is_known)).await;
        let late = |words: String| EngineError::new(EngineErrorKind::Indeterminate, words);
        match &*self.0.borrow() {
            State::Done(was_in_line) => Ok(*was_in_line),
            State::Failed(error) if !error.is_retryable() => Err(error.clone()),
            State::Failed(error) => Err(late(error.to_string())),
            State::Open | State::Begun => Err(late(NO_REPLY.to_owned())),
        }
    }
}
