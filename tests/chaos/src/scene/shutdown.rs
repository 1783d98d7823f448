//! Managers are shut down while bodies run and calls wait.

use super::setting::{Setting, plain};
use crate::instructions::{BodyLength, Workload};
use crate::journal::CallKind;
use lock_test_support::time::millis;

/// Bodies take longer than a shutdown lets them finish.
pub fn shut_down_under_bodies() -> Setting {
    Setting {
        workload: Workload {
            calls: vec![
                CallKind::Waits,
                CallKind::Runs,
                CallKind::Guard,
                CallKind::Nests,
                CallKind::SetAside,
            ],
            wait_ms: Some(5000),
            pace: BodyLength::UpTo { ms: 2000 },
            ..plain()
        },
        lasts: millis(1000),
        ..Setting::of(&[])
    }
}
