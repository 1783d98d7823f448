//! Empty functions, for builds without the feature `metrics`.

use crate::event::LockEvent;
use crate::site::Site;

pub(crate) fn record(_: &LockEvent<'_>) {}

pub(crate) struct Active;

impl Active {
    pub(crate) fn hold(_: Option<&'static Site>) -> Active {
        Active
    }

    pub(crate) fn wait(_: Option<&'static Site>) -> Active {
        Active
    }

    pub(crate) fn kept() -> Active {
        Active
    }

    pub(crate) fn end(&self) {}
}
