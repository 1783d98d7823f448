//! The functions that run under the locks, one for each way of acquiring one.

use std::time::Duration;

use lock_runtime::{Lock, LockGuard, ReleaseMode, distributed_lock};

use super::ON_PURPOSE;
use super::body::{Call, CallError};
use lock_test_support::time::millis;

pub async fn waits(call: &Call) -> Result<(), CallError> {
    match call.lazy {
        true => releases_lazily(call).await,
        false => confirms(call).await,
    }
}

#[distributed_lock(key = "door:<call.key>", ttl = call.ttl, wait = call.wait, manager = call.locks, guard = lock)]
async fn confirms(call: &Call) -> Result<(), CallError> {
    call.body(lock).await
}

#[distributed_lock(
    key = "door:<call.key>",
    ttl = call.ttl,
    wait = call.wait,
    manager = call.locks,
    guard = lock,
    release = "lazy"
)]
async fn releases_lazily(call: &Call) -> Result<(), CallError> {
    call.body(lock).await
}

#[distributed_lock(
    key = "door:<call.key>",
    ttl = call.ttl,
    wait = call.wait,
    manager = call.locks,
    guard = lock,
    release = "background"
)]
pub async fn releases_in_background(call: &Call) -> Result<(), CallError> {
    call.body(lock).await
}

#[distributed_lock(
    key = "door:<call.key>",
    ttl = call.ttl,
    wait = call.wait,
    manager = call.locks,
    guard = lock,
    on_lost = "continue"
)]
pub async fn continues(call: &Call) -> Result<(), CallError> {
    call.body(lock).await
}

#[distributed_lock(
    key = "door:<call.key>",
    ttl = call.ttl,
    wait = call.wait,
    manager = call.locks,
    guard = lock,
    renew = false
)]
pub async fn unrenewed(call: &Call) -> Result<(), CallError> {
    call.body(lock).await
}

#[distributed_lock(
    key = "door:<call.key>",
    ttl = call.ttl,
    wait = call.wait,
    manager = call.locks,
    guard = lock,
    max_hold = call.max_hold
)]
pub async fn max_hold(call: &Call) -> Result<(), CallError> {
    call.body(lock).await
}

#[distributed_lock(
    key = "door:<call.key>",
    ttl = call.ttl,
    wait = call.wait,
    manager = call.locks,
    guard = lock,
    min_hold = MIN_HOLD
)]
pub async fn keeps(call: &Call) -> Result<(), CallError> {
    call.body(lock).await
}

/// The shortest time for which [`keeps`] and [`keeps_by_hand`] hold the lock.
const MIN_HOLD: Duration = millis(50);

#[distributed_lock(key = "door:<call.key>", ttl = call.ttl, wait = call.wait, manager = call.locks, guard = lock)]
pub async fn nests(call: &Call) -> Result<(), CallError> {
    call.body(lock).await?;
    nested(call).await
}

#[distributed_lock(
    key = "door:<call.key>",
    ttl = call.ttl,
    wait = call.wait,
    manager = call.locks,
    guard = lock,
    reentrant = true
)]
async fn nested(call: &Call) -> Result<(), CallError> {
    call.again(lock).await
}

#[distributed_lock(
    key = "door:<call.key>",
    ttl = call.ttl,
    wait = call.wait,
    manager = call.locks,
    guard = lock,
    max_waiters = 1
)]
pub async fn waits_alone(call: &Call) -> Result<(), CallError> {
    call.body(lock).await
}

#[distributed_lock(
    key = "door:<call.key>",
    mode = "read",
    ttl = call.ttl,
    wait = call.wait,
    manager = call.locks,
    guard = lock
)]
pub async fn reads(call: &Call) -> Result<(), CallError> {
    call.body(lock).await
}

#[distributed_lock(
    key = "door:<call.key>",
    permits = permits,
    ttl = call.ttl,
    wait = call.wait,
    manager = call.locks,
    guard = lock
)]
pub async fn shares(call: &Call, permits: u32) -> Result<(), CallError> {
    call.body(lock).await
}

pub async fn transfers(call: &Call) -> Result<(), CallError> {
    several(call)
        .run(async |guard| call.body(guard).await)
        .await?
}

pub async fn downgrades(call: &Call) -> Result<(), CallError> {
    let guard = lock(call).acquire().await?;
    call.body(&guard).await?;
    call.downgrade(guard).await
}

pub async fn reads_by_hand(call: &Call) -> Result<(), CallError> {
    let guard = lock(call).read().acquire().await?;
    let body = call.body(&guard).await;
    drop(guard);
    body
}

#[distributed_lock(key = "door:<call.key>", ttl = call.ttl, wait = call.wait, manager = call.locks, guard = lock)]
pub async fn fails(call: &Call) -> Result<(), CallError> {
    call.body(lock).await?;
    Err(CallError::OnPurpose)
}

#[distributed_lock(key = "door:<call.key>", ttl = call.ttl, wait = call.wait, manager = call.locks, guard = lock)]
pub async fn panics(call: Call) -> Result<(), CallError> {
    call.body(lock).await?;
    std::panic::panic_any(ON_PURPOSE);
}

/// Returns the lock of a call, for functions without an attribute.
pub fn lock(call: &Call) -> Lock {
    let key = format!("door:{}", call.key);
    let release = match call.lazy {
        true => ReleaseMode::Lazy,
        false => ReleaseMode::Confirmed,
    };
    let lock = call.locks.lock(key).ttl(call.ttl).wait(call.wait);
    lock.release_mode(release)
}

/// Returns the lock of all keys of a call.
pub fn several(call: &Call) -> Lock {
    let keys = call.accounts.iter().map(|account| account.key);
    let keys = keys.map(|key| format!("door:{key}"));
    call.locks.lock_all(keys).ttl(call.ttl).wait(call.wait)
}

pub async fn by_hand(call: &Call, drops: bool) -> Result<(), CallError> {
    held_by_hand(call, lock(call).acquire().await?, drops).await
}

pub async fn keeps_by_hand(call: &Call, drops: bool) -> Result<(), CallError> {
    let lock = lock(call).min_hold(MIN_HOLD);
    held_by_hand(call, lock.acquire().await?, drops).await
}

async fn held_by_hand(call: &Call, guard: LockGuard, drops: bool) -> Result<(), CallError> {
    let body = call.body(&guard).await;
    match drops {
        true => drop(guard),
        false => guard.release().await?,
    }
    body
}

/// Tries once; fails if the lock is held.
pub async fn tries(call: &Call) -> Result<(), CallError> {
    match lock(call).try_acquire().await? {
        Some(guard) => watched(call, guard).await,
        None => Err(CallError::Busy),
    }
}

pub async fn runs(call: &Call) -> Result<(), CallError> {
    lock(call).run(async |guard| call.body(guard).await).await?
}

pub async fn watches(call: &Call) -> Result<(), CallError> {
    watched(call, lock(call).acquire().await?).await
}

/// Cancels the body itself when the lock is lost.
pub async fn watched(call: &Call, guard: LockGuard) -> Result<(), CallError> {
    let body = tokio::select! {
        biased;
        loss = guard.lost() => Err(loss.into()),
        body = call.body(&guard) => body,
    };
    match body {
        Ok(()) => Ok(guard.release().await?),
        body => body,
    }
}
