//! Runs a body under a lock.

use crate::api::guard::LockGuard;
use crate::error::LockError;
use crate::lock::loss::LossListener;
use crate::lock::scope::Scope;
use crate::options::{OnLost, ReleaseMode};
use pin_project_lite::pin_project;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

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
        loss: LossListener<'g>,
        // `None` while the body is polled.
        scope: Option<Arc<Scope>>,
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
            loss: guard.loss_listener(),
            scope: Some(guard.scope()),
            stage: Stage::Body { body },
        }
    }
}

impl<F: Future> Future for Guarded<'_, F> {
    type Output = Result<F::Output, LockError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            match this.stage.as_mut().project() {
                StageProjection::Body { body } => {
                    if this.guard.on_lost == OnLost::Cancel
                        && let Some(loss) = this.loss.as_mut().poll_lost(context)
                    {
                        this.stage.set(Stage::Done);
                        return Poll::Ready(Err(loss));
                    }
                    let polled = {
                        let _entered = Scope::enter(this.scope);
                        this.guard.in_scope(|| body.poll(context))
                    };
                    let value = ready!(polled);
                    if this.guard.release == ReleaseMode::Background {
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
