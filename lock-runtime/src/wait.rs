//! Waiting within the process: one line for each key, in order of arrival.
//!
//! Only the head of a line asks the server, so a process is never more than one waiter there.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

#[derive(Default)]
pub(crate) struct Waiters {
    lines: Mutex<HashMap<Arc<str>, Line>>,
}

#[derive(Clone)]
struct Line {
    length: usize,
    /// One permit, given in order of arrival.
    turn: Arc<Semaphore>,
    freed: Arc<Notify>,
}

/// A place in line. Dropping it leaves the line, and passes the turn on.
pub(crate) struct Place<'a> {
    waiters: &'a Waiters,
    name: Arc<str>,
    line: Line,
    turn: Option<OwnedSemaphorePermit>,
}

impl Waiters {
    /// Whether somebody in this process waits for that lock.
    pub(crate) fn are_waiting(&self, name: &str) -> bool {
        self.lines().contains_key(name)
    }

    /// Takes the last place in line.
    pub(crate) fn join(&self, name: &Arc<str>) -> Place<'_> {
        let mut lines = self.lines();
        let line = lines.entry(name.clone()).or_insert_with(|| Line {
            length: 0,
            turn: Arc::new(Semaphore::new(1)),
            freed: Arc::default(),
        });
        line.length += 1;
        Place {
            waiters: self,
            name: name.clone(),
            line: line.clone(),
            turn: None,
        }
    }

    /// Tells the head of the line that this process has just released the lock.
    pub(crate) fn freed(&self, name: &str) {
        if let Some(line) = self.lines().get(name) {
            line.freed.notify_one();
        }
    }

    fn lines(&self) -> MutexGuard<'_, HashMap<Arc<str>, Line>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place<'_> {
    /// Waits until this place is the head of the line.
    pub(crate) async fn turn(&mut self) {
        if self.turn.is_none() {
            // The semaphore is never closed.
            self.turn = self.line.turn.clone().acquire_owned().await.ok();
        }
    }

    /// Waits until this process releases the lock.
    pub(crate) async fn freed(&self) {
        self.line.freed.notified().await;
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut lines = self.waiters.lines();
        if let Some(line) = lines.get_mut(&self.name) {
            line.length -= 1;
            if line.length == 0 {
                lines.remove(&self.name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn is_ready(work: impl Future<Output = ()>) -> bool {
        pin!(work).poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(())
    }

    #[test]
    fn turns_come_in_order_of_arrival() {
        let waiters = Waiters::default();
        let name: Arc<str> = "a".into();
        let mut first = waiters.join(&name);
        let mut second = waiters.join(&name);
        assert!(is_ready(first.turn()));
        {
            let mut turn = pin!(second.turn());
            let mut context = Context::from_waker(Waker::noop());
            assert!(turn.as_mut().poll(&mut context).is_pending());
            drop(first);
            assert!(turn.as_mut().poll(&mut context).is_ready());
        }
        drop(second);
        assert!(!waiters.are_waiting("a"));
    }

    #[test]
    fn a_waiter_that_leaves_holds_nobody_up() {
        let waiters = Waiters::default();
        let name: Arc<str> = "a".into();
        let mut first = waiters.join(&name);
        let mut second = waiters.join(&name);
        let mut third = waiters.join(&name);
        assert!(is_ready(first.turn()));
        assert!(!is_ready(second.turn()));
        drop(second);
        drop(first);
        assert!(is_ready(third.turn()));
    }

    #[test]
    fn a_release_wakes_the_head_even_if_it_comes_first() {
        let waiters = Waiters::default();
        let name: Arc<str> = "a".into();
        let head = waiters.join(&name);
        assert!(!is_ready(head.freed()));
        waiters.freed("a");
        waiters.freed("b");
        assert!(is_ready(head.freed()));
        assert!(!is_ready(head.freed()));
    }
}
