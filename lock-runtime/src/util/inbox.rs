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

    /// Pushes a message, unless the last one that was not received yet is as good.
    pub(crate) fn push_unless(&self, message: T, is_as_good: impl FnOnce(&T) -> bool) {
        let mut messages = self.messages.lock();
        if messages.back().is_none_or(|last| !is_as_good(last)) {
            messages.push_back(message);
            self.arrived.notify_one();
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_is_left_out_that_the_last_one_is_as_good_as() {
        let inbox = Inbox::new();
        for message in [1, 1, 2, 1] {
            inbox.push_unless(message, |last| *last == message);
        }
        let received = std::iter::from_fn(|| inbox.take());
        assert_eq!(received.collect::<Vec<_>>(), [1, 2, 1]);
    }
}
