//! The recipients of replies.

use crate::engine::background_release::BackgroundRelease;
use crate::engine::error::{EngineError, EngineErrorKind};
use tokio::sync::oneshot;

pub(crate) type ReplySender<T> = oneshot::Sender<Result<T, EngineError>>;

/// The recipient of the reply to a release, which says whether the token held its lock.
pub(crate) enum ReleaseRecipient {
    Caller(ReplySender<bool>),
    Supervisor(UnconfirmedRelease),
}

/// A background release. Dropping it hands it over to its supervisor, unless a reply has come.
pub(crate) struct UnconfirmedRelease(Option<BackgroundRelease>);

impl ReleaseRecipient {
    pub(crate) fn supervisor_of(background: BackgroundRelease) -> ReleaseRecipient {
        ReleaseRecipient::Supervisor(UnconfirmedRelease(Some(background)))
    }

    /// Returns `false` if the caller has left.
    pub(crate) fn is_wanted(&self) -> bool {
        match self {
            ReleaseRecipient::Caller(reply) => !reply.is_closed(),
            ReleaseRecipient::Supervisor(_) => true,
        }
    }

    pub(crate) fn send(self, result: Result<bool, EngineError>) {
        match self {
            ReleaseRecipient::Caller(reply) => drop(reply.send(result)),
            ReleaseRecipient::Supervisor(release) => release.settle(result),
        }
    }
}

impl UnconfirmedRelease {
    fn settle(mut self, result: Result<bool, EngineError>) {
        match (self.0.take(), result) {
            (Some(release), Ok(was_owner)) => release.confirm(was_owner),
            (Some(release), Err(error)) => {
                release.hand_over(error.kind == EngineErrorKind::Indeterminate);
            }
            (None, _) => {}
        }
    }
}

impl Drop for UnconfirmedRelease {
    fn drop(&mut self) {
        if let Some(release) = self.0.take() {
            release.hand_over(true);
        }
    }
}
