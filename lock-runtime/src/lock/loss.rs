//! Waits for the loss of any of several holds.

use crate::error::LockError;
use crate::lock::hold::Hold;
use pin_project_lite::pin_project;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Context;
use tokio::sync::futures::Notified;

pin_project! {
    /// Notices the loss of a hold, or of one of several. It is polled until there is one.
    pub(crate) struct LossListener<'g> {
        hold: &'g Arc<Hold>,
        #[pin]
        lost: Notified<'g>,
        others: Vec<Other<'g>>,
    }
}

/// The hold of a further key.
type Other<'g> = (&'g Arc<Hold>, Pin<Box<Notified<'g>>>);

impl<'g> LossListener<'g> {
    pub(crate) fn new(
        hold: &'g Arc<Hold>,
        others: impl Iterator<Item = &'g Arc<Hold>>,
    ) -> LossListener<'g> {
        LossListener {
            hold,
            lost: hold.lost.notified(),
            others: others
                .map(|hold| (hold, Box::pin(hold.lost.notified())))
                .collect(),
        }
    }

    /// Checks the clock. Returns the loss if there is one; otherwise the task is woken by it.
    pub(crate) fn poll_lost(self: Pin<&mut Self>, context: &mut Context<'_>) -> Option<LockError> {
        let mut this = self.project();
        // Subscribe before the check, so that no loss falls in between.
        while this.lost.as_mut().poll(context).is_ready() {
            let hold: &'g Arc<Hold> = this.hold;
            if let Some(loss) = hold.check_lost() {
                return Some(loss);
            }
            this.lost.set(hold.lost.notified());
        }
        for (hold, lost) in this.others.iter_mut() {
            let hold: &'g Arc<Hold> = hold;
            while lost.as_mut().poll(context).is_ready() {
                if let Some(loss) = hold.check_lost() {
                    return Some(loss);
                }
                lost.set(hold.lost.notified());
            }
        }
        let others = this.others.iter().map(|(hold, _)| *hold);
        let mut holds = std::iter::once(*this.hold).chain(others);
        holds.find_map(|hold| hold.check_lost())
    }
}
