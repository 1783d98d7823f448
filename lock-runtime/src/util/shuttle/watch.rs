//! A watched value that is tokio's, with points at which others may go first.

use crate::util::shuttle::sync::{Then, let_others_go_first};
pub(crate) use tokio::sync::watch::{Receiver, Ref};

pub(crate) struct Sender<T>(tokio::sync::watch::Sender<T>);

pub(crate) fn channel<T>(value: T) -> (Sender<T>, Receiver<T>) {
    let (sender, receiver) = tokio::sync::watch::channel(value);
    (Sender(sender), receiver)
}

impl<T> Sender<T> {
    pub(crate) fn send_modify(&self, modify: impl FnOnce(&mut T)) {
        let_others_go_first();
        let _then = Then;
        self.0.send_modify(modify);
    }

    pub(crate) fn subscribe(&self) -> Receiver<T> {
        let_others_go_first();
        self.0.subscribe()
    }

    pub(crate) fn borrow(&self) -> Ref<'_, T> {
        self.0.borrow()
    }
}
