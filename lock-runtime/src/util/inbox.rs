//! The message queue of a task. Small, since every local queue has one.

use crate::util::sync::Mutex;
use std::collections::VecDeque;
use tokio::sync::Notify;

/// Messages in arrival order, for one reader.
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

    pub(crate) fn push(&self, message: T) {
        self.messages.lock().push_back(message);
        self.arrived.notify_one();
    }

    /// Waits for the next message. Cancel safe: no message is lost.
    pub(crate) async fn recv(&self) -> T {
        loop {
            if let Some(message) = self.take() {
                return message;
            }
            self.arrived.notified().await;
        }
    }

    fn take(&self) -> Option<T> {
        let mut messages = self.messages.lock();
        messages.pop_front()
    }
}
