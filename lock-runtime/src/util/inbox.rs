//! Where a task is told what concerns it. Small, since every line of waiters has one.

use crate::util::sync::Mutex;
use std::collections::VecDeque;
use std::sync::PoisonError;
use tokio::sync::Notify;

/// Messages in order of arrival, for one reader.
pub(crate) struct Inbox<T> {
    messages: Mutex<VecDeque<T>>,
    arrived: Notify,
}

impl<T> Inbox<T> {
    pub(crate) fn new() -> Self {
        Inbox {
            messages: Mutex::default(),
            arrived: Notify::new(),
        }
    }

    pub(crate) fn put(&self, message: T) {
        self.messages
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push_back(message);
        self.arrived.notify_one();
    }

    /// The next message. Cancel safe: what has not been returned is still there.
    pub(crate) async fn next(&self) -> T {
        loop {
            let next = self
                .messages
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .pop_front();
            match next {
                Some(message) => return message,
                None => self.arrived.notified().await,
            }
        }
    }
}
