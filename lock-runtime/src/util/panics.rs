//! Contains panics, so that a panic ends only the work in which it happens.

use pin_project_lite::pin_project;
use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

pub(crate) type Panic = Box<dyn Any + Send>;

/// Runs `work`. Returns its output, or the panic in it, which is logged.
pub(crate) fn catch<T>(work: impl FnOnce() -> T) -> Result<T, Panic> {
    #[cfg(test)]
    if crate::util::shuttle::execution::running() {
        return Ok(work());
    }
    catch_unwind(AssertUnwindSafe(work)).inspect_err(|panic| {
        let words = panic.downcast_ref::<String>().map(String::as_str);
        let words = words.or_else(|| panic.downcast_ref().copied());
        report(words.unwrap_or("the panic has no message"));
    })
}

#[cfg(feature = "tracing")]
fn report(words: &str) {
    contain(|| tracing::error!(target: "lock_runtime", "a task of the library panicked: {words}"));
}

#[cfg(not(feature = "tracing"))]
fn report(_: &str) {}

/// Calls the user's code. Returns its result, or `None` if it panics, which the panic hook has reported.
pub(crate) fn contain<T>(call: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(call)).map_err(discard).ok()
}

/// Drops what a panic was raised with, which is the user's code, too.
fn discard(panic: Panic) {
    if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        std::mem::forget(another);
    }
}

pin_project! {
    /// A future that resolves to another future's output, or to the panic in it, which is logged.
    pub(crate) struct Caught<F> {
        #[pin]
        work: F,
    }
}

pub(crate) fn caught<F: Future>(work: F) -> Caught<F> {
    Caught { work }
}

impl<F: Future> Future for Caught<F> {
    type Output = Result<F::Output, Panic>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let work = self.project().work;
        match catch(|| work.poll(context)) {
            Ok(polled) => polled.map(Ok),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Bomb;

    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("the test requires this panic");
        }
    }

    #[test]
    fn what_a_panic_carries_may_panic_too() {
        assert_eq!(contain(|| std::panic::panic_any(Bomb)), None::<()>);
        assert_eq!(contain(|| 7), Some(7));
    }
}
