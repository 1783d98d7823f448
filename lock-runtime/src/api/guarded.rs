//! Runs a body under a lock.

use crate::api::guard::LockGuard;
use crate::error::LockError;
use crate::options::{OnLost, ReleaseMode};
use pin_project_lite::pin_project;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::sync::futures::Notified;

pin_project! {
    /// A future that runs a body while the guard's lease is valid, and releases the lock before it resolves
    /// to the body's value.
    ///
    /// Once the lease is lost, the body is not polled again but dropped. If this future is dropped or
    /// unwinds before the end, the guard releases the lock.
    #[must_use = "futures do nothing unless polled"]
    pub struct Guarded<'g, F: Future> {
        guard: &'g LockGuard,
        #[pin]
        lost: Notified<'g>,
        #[pin]
        stage: Stage<'g, F>,
    }
}

pin_project! {
    #[project = StageProjection]
    enum Stage<'g, F: Future> {
        Body {
            #[pin]
            body: F,
        },
        Release {
            value: Option<F::Output>,
            release: Pin<Box<dyn Future<Output = Result<(), LockError>> + Send + 'g>>,
        },
        Done,
    }
}

impl<'g, F: Future> Guarded<'g, F> {
    /// Creates a future that runs `body` under the guard's lock.
    pub fn new(guard: &'g LockGuard, body: F) -> Self {
        Guarded {
            guard,
            lost: guard.hold().lost.notified(),
            stage: Stage::Body { body },
        }
    }
}

impl<F: Future> Future for Guarded<'_, F> {
    type Output = Result<F::Output, LockError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let hold = this.guard.hold();
        loop {
            match this.stage.as_mut().project() {
                StageProjection::Body { body } => {
                    if this.guard.options.on_lost == OnLost::Cancel {
                        // Subscribe before the check, so that no loss falls in between.
                        let _ = this.lost.as_mut().poll(context);
                        if let Some(loss) = hold.check_lost() {
                            this.stage.set(Stage::Done);
                            return Poll::Ready(Err(loss));
                        }
                    }
                    let value = ready!(this.guard.span.in_scope(|| body.poll(context)));
                    if this.guard.options.release == ReleaseMode::Background {
                        // Dropping the guard, which follows, sends the release.
                        this.stage.set(Stage::Done);
                        return Poll::Ready(Ok(value));
                    }
                    this.stage.set(Stage::Release {
                        value: Some(value),
                        release: Box::pin(this.guard.release_or_hand_off()),
                    });
                }
                StageProjection::Release { value, release } => {
                    // An error of the release never replaces the body's value; it has been logged.
                    let _ = ready!(release.as_mut().poll(context));
                    let value = value.take();
                    this.stage.set(Stage::Done);
                    return match value {
                        Some(value) => Poll::Ready(Ok(value)),
                        None => Poll::Pending,
                    };
                }
                StageProjection::Done => return Poll::Pending,
            }
        }
    }
}
