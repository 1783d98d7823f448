//! Tokio's watched values, with points at which the scheduler can switch tasks.

use crate::util::shuttle::sync::{YieldOnDrop, yield_point};
pub(crate) use tokio::sync::watch::{Receiver, Ref};

pub(crate) struct Sender<T>(tokio::sync::watch::Sender<T>);

pub(crate) fn channel<T>(value: T) -> (Sender<T>, Receiver<T>) {
    let (sender, receiver) = tokio::sync::watch::channel(value);
    (Sender(sender), receiver)
}

impl<T> Sender<T> {
    pub(crate) fn send_modify(&self, modify: impl FnOnce(&mut T)) {
        yield_point();
        let _yield = YieldOnDrop;
        self.0.send_modify(modify);
    }

    pub(crate) fn subscribe(&self) -> Receiver<T> {
        yield_point();
        self.0.subscribe()
    }

    pub(crate) fn borrow(&self) -> Ref<'_, T> {
        self.0.borrow()
    }
}
