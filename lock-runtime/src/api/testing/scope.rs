//! For how long the locks of a test take the place of the global manager.

use crate::api::manager::LockManager;
use crate::api::thread_default;
use pin_project_lite::pin_project;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Until it is dropped, a [`Locks`](crate::testing::Locks) is the global manager of this thread:
/// [`Locks::set_default`](crate::testing::Locks::set_default).
#[derive(Debug)]
#[must_use = "the manager is the default only until the guard is dropped"]
pub struct DefaultGuard {
    before: Option<LockManager>,
    /// The guard ends the default of the thread that set it.
    of_thread: PhantomData<*const ()>,
}

impl DefaultGuard {
    pub(crate) fn set(manager: LockManager) -> DefaultGuard {
        DefaultGuard {
            before: thread_default::replace(Some(manager)),
            of_thread: PhantomData,
        }
    }
}

impl Drop for DefaultGuard {
    fn drop(&mut self) {
        thread_default::replace(self.before.take());
    }
}

pin_project! {
    /// A future for which a manager is the global one while it is polled.
    pub(crate) struct Scoped<F> {
        manager: LockManager,
        #[pin]
        work: F,
    }
}

impl<F> Scoped<F> {
    pub(crate) fn new(manager: LockManager, work: F) -> Scoped<F> {
        Scoped { manager, work }
    }
}

impl<F: Future> Future for Scoped<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let _default = DefaultGuard::set(this.manager.clone());
        this.work.poll(context)
    }
}
