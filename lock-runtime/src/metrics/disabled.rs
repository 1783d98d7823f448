//! Empty functions, for builds without the feature `metrics`.

use crate::event::LockEvent;
use crate::metrics::ages::Ages;
use crate::process::ProcessId;
use crate::site::Site;

pub(crate) const MEASURES_AGES: bool = false;

pub(crate) fn record(_: &LockEvent<'_>) {}

pub(crate) fn set_ages(_: ProcessId, _: Ages) {}

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
