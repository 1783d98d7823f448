//! Calls that wait are not polled for a while, as in a `select!` loop whose other branch is busy.

use std::time::Duration;

use super::setting::{Setting, plain};
use crate::instructions::{BodyLength, Workload};
use crate::journal::CallKind;
use lock_test_support::time::millis;

/// After this time the next call has acquired a lock that was granted to a call that is not polled: 2 s, and
/// what a busy machine adds.
const PASSED_ON: Duration = millis(2000 + 600);

/// One process makes one call of that kind after the other; the others wait.
fn beside_waiters(kind: CallKind, keys: u32) -> Setting {
    Setting {
        keys,
        processes: 2 + keys as usize,
        workload: Workload {
            tasks: 1,
            calls: vec![CallKind::Waits],
            first_calls: vec![vec![kind]],
            wait_ms: Some(10_000),
            pace: BodyLength::Held { ms: 100 },
            ..plain()
        },
        gap: Some(PASSED_ON),
        ..Setting::of(&[])
    }
}

pub fn calls_set_aside() -> Setting {
    beside_waiters(CallKind::SetAside, 1)
}

/// They have some of their keys by then.
pub fn several_keys_set_aside() -> Setting {
    beside_waiters(CallKind::TransferSetAside, 3)
}
