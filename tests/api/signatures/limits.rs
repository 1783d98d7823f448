//! The attribute and the runtime refuse the same values. `lock-macros/tests/ui/fail` has the literals just
//! beyond the ends of each range, which do not compile.

use std::time::Duration;

use lock_runtime::{Lock, LockError, distributed_lock};

use super::locks;

const SHORTEST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);
const STEP: Duration = Duration::from_millis(1);

#[distributed_lock(
    key = "shortest",
    ttl = "10ms",
    max_hold = "10ms",
    min_hold = "10ms",
    permits = 1
)]
async fn shortest() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(
    key = "longest",
    ttl = "8760h",
    max_hold = "8760h",
    min_hold = "8760h",
    permits = 2046
)]
async fn longest() -> Result<(), LockError> {
    Ok(())
}

/// Returns the option that the call is refused for.
fn refused<T>(answer: Result<T, LockError>) -> Option<&'static str> {
    match answer {
        Err(LockError::InvalidOption { option, .. }) => Some(option),
        _ => None,
    }
}

#[tokio::test]
async fn literals_within_the_limits_are_accepted_at_run_time() {
    locks().await;
    assert_eq!(refused(shortest().await), None);
    assert_eq!(refused(longest().await), None);
}

#[tokio::test]
async fn values_just_beyond_the_limits_are_refused_at_run_time() {
    type SetDuration = fn(Lock, Duration) -> Lock;
    let durations: [(_, SetDuration); 3] = [
        ("ttl", Lock::ttl),
        ("max_hold", Lock::max_hold),
        ("min_hold", Lock::min_hold),
    ];
    for (option, set) in durations {
        for beyond in [SHORTEST - STEP, LONGEST + STEP] {
            let lock = set(locks().await.lock("beyond"), beyond);
            assert_eq!(
                refused(lock.try_acquire().await),
                Some(option),
                "{beyond:?}"
            );
        }
    }
    for beyond in [0, 2047] {
        let lock = locks().await.lock("beyond").permits(beyond);
        assert_eq!(
            refused(lock.try_acquire().await),
            Some("permits"),
            "{beyond}"
        );
    }
    let reserved = locks().await.lock(":a").try_acquire().await;
    assert!(matches!(reserved, Err(LockError::InvalidKey { .. })));
}
