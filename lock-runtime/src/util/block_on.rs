//! Runs a future on a thread that may wait.

use crate::util::io_thread::can_poll;
use crate::util::panics::contain;
use std::future::{Future, ready};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use tokio::runtime::Handle;
use tokio::task::consume_budget;

/// Runs the future, and parks the thread while it waits: the I/O thread does the work meanwhile. Returns
/// `None`, without polling it, if a runtime polls a task on this thread, or the thread ends.
pub(crate) fn block_on<F: Future>(work: F) -> Option<F::Output> {
    if !may_block() {
        return None;
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut work = pin!(work);
    loop {
        match work.as_mut().poll(&mut context) {
            Poll::Ready(done) => return Some(done),
            Poll::Pending => thread::park(),
        }
    }
}

/// Returns `false` if other tasks, and perhaps that which holds the lock, could not run while this thread
/// waits.
fn may_block() -> bool {
    match Handle::try_current() {
        // It panics where a task hides its budget.
        Ok(runtime) => !in_task() && contain(|| runtime.block_on(ready(()))).is_some(),
        Err(_) => can_poll(),
    }
}

/// Returns `true` if a runtime polls a task on this thread. It also knows its runtime in `spawn_blocking` and
/// in `block_in_place`, where it may block, but only tasks have a budget after which they must yield. It is a
/// `u8`.
fn in_task() -> bool {
    let mut context = Context::from_waker(Waker::noop());
    (0..=u8::MAX).any(|_| pin!(consume_budget()).poll(&mut context).is_pending())
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
