//! Empty functions, for builds without the feature `metrics`.

use crate::event::LockEvent;
use crate::site::Site;

pub(crate) fn record(_: &LockEvent<'_>) {}

pub(crate) fn wait_begins(_: Option<&'static Site>) {}

pub(crate) fn wait_ends(_: Option<&'static Site>) {}
