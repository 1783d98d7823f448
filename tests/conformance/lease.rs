//! A lease lasts as long as it can be proven: it is renewed while held, and a guard is never valid for longer
//! than the server keeps the lock.

use std::future::pending;
use std::time::Duration;

use lock_runtime::{LockError, LockGuard, LostCause};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::Instant;

use super::fixture::Fixture;
use lock_test_support::manager::until_renewed;
use lock_test_support::time::{NOISE, PATIENCE, millis, soon, until, within, yield_in_time};

pub async fn lock_is_renewed_while_held(fixture: Fixture) {
    let row = fixture.key("row");
    let lock = fixture.locks().lock(&*row).ttl(fixture.renewed_lease());
    let guard = lock.acquire().await.unwrap();
    let token = guard.fencing_token().await.unwrap();
    // Past its first lease, where time costs nothing.
    for _ in 0..if fixture.is_virtual() { 5 } else { 2 } {
        until_renewed([&guard]).await;
        assert!(fixture.is_held(&row).await);
    }
    assert_eq!(guard.fencing_token().await.unwrap(), token);
    guard.release().await.unwrap();
    assert!(!fixture.is_held(&row).await);
}

pub async fn many_locks_are_renewed(fixture: Fixture) {
    let mut taken = JoinSet::new();
    for n in 0..250 {
        let lock = fixture.locks().lock(fixture.key(&n.to_string()));
        // TTLs differ, so that not all renewals are due at the same time.
        let ttl = fixture.renewed_lease() + millis(n % 10 * 50);
        taken.spawn(lock.ttl(ttl).acquire());
    }
    let guards: Result<Vec<_>, _> = taken.join_all().await.into_iter().collect();
    let guards = guards.unwrap();
    let left: Vec<_> = guards.iter().map(LockGuard::remaining).collect();
    let begun = Instant::now();
    let is_renewed = |(guard, left): (&LockGuard, _)| begun.elapsed() + guard.remaining() > left;
    until(|| guards.iter().zip(left.iter().copied()).all(is_renewed)).await;
    assert!(guards.iter().all(LockGuard::is_valid));
    let releases: JoinSet<_> = guards.into_iter().map(|guard| guard.release()).collect();
    for released in releases.join_all().await {
        released.unwrap();
    }
}

/// On a separate runtime with a single thread.
pub async fn lock_is_renewed_while_thread_is_blocked(fixture: Fixture) {
    let blocks = spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(async {
            let lock = fixture.locks().lock(fixture.key("row"));
            let run = lock.ttl(fixture.renewed_lease()).run(async |lock| {
                let (left, begun) = (lock.remaining(), Instant::now());
                while begun.elapsed() + lock.remaining() <= left {
                    std::thread::sleep(millis(10));
                }
                lock.is_valid()
            });
            assert!(run.await.unwrap());
        });
    });
    blocks.await.unwrap();
}

pub async fn body_without_renewal_ends_after_ttl(fixture: Fixture) {
    let (row, ttl, begun) = (fixture.key("row"), fixture.short_lease(), Instant::now());
    let run = fixture.locks().lock(&*row).ttl(ttl).renew(false);
    let run = run.run(async |_| pending::<()>().await);
    let result = within(ttl + NOISE, run).await;
    assert!(result.unwrap_err().is_lost());
    assert!(begun.elapsed() >= ttl * 9 / 10, "{:?}", begun.elapsed());
    fixture.until_free(&row).await;
}

pub async fn loss_without_renewal_does_not_speak_of_renewals(fixture: Fixture) {
    let row = fixture.key("row");
    let lock = fixture.locks().lock(&*row).renew(false);
    let guard = lock.ttl(fixture.short_lease()).acquire().await.unwrap();
    let lost = soon(guard.lost()).await;
    let LockError::Lost { cause, .. } = &lost else {
        panic!("{lost}");
    };
    assert_eq!(*cause, LostCause::NotRenewed, "{lost}");
    assert!(lost.to_string().contains("passed, and it is not renewed"));
}

pub async fn renewal_ends_at_max_hold(fixture: Fixture) {
    let (row, ttl, begun) = (fixture.key("row"), fixture.short_lease(), Instant::now());
    let run = fixture.locks().lock(&*row).ttl(ttl).max_hold(ttl / 2);
    let run = run.run(async |_| pending::<()>().await);
    assert!(soon(run).await.unwrap_err().is_lost());
    fixture.at_most(ttl / 2, begun);
    assert!(begun.elapsed() >= ttl * 9 / 20, "{:?}", begun.elapsed());
    fixture.until_free(&row).await;
}

pub async fn short_lease_is_renewed(fixture: Fixture) {
    let ttl = millis(200);
    let lock = fixture.locks().lock(fixture.key("row")).ttl(ttl);
    let guard = lock.acquire().await.unwrap();
    tokio::time::sleep(ttl * 3).await;
    // A starved machine renews it too late.
    if let Err(lost) = guard.release().await {
        assert!(lost.is_lost() && !fixture.is_virtual(), "{lost}");
    }
}

/// A guard is never valid after its TTL. This bound is exact and allows for no noise.
pub async fn guard_is_never_valid_after_ttl(fixture: Fixture) {
    for ttl in [millis(150), millis(400)] {
        let lock = fixture.locks().lock(fixture.key("row"));
        let guard = lock.ttl(ttl).renew(false).acquire().await.unwrap();
        let had = Instant::now();
        let margin = ttl / 100 + millis(2);
        assert!(guard.remaining() <= ttl - margin, "{:?}", guard.remaining());
        // The time is taken before the check, so a stalled thread cannot move it back.
        let mut valid_at = Duration::ZERO;
        loop {
            let looked_at = had.elapsed();
            if !guard.is_valid() {
                break;
            }
            valid_at = looked_at;
            yield_in_time().await;
        }
        assert!(valid_at <= ttl - margin, "valid after {valid_at:?}");
        assert_eq!(guard.remaining(), Duration::ZERO);
        assert!(
            guard
                .ensure_valid_for(Duration::ZERO)
                .unwrap_err()
                .is_lost()
        );
        assert!(soon(guard.lost()).await.is_lost());
        assert!(guard.release().await.unwrap_err().is_lost());
    }
}

pub async fn ensure_valid_for_rejects_longer_duration_and_keeps_lock(fixture: Fixture) {
    let lock = fixture.locks().lock(fixture.key("row"));
    let guard = lock.renew(false).acquire().await.unwrap();
    guard.ensure_valid_for(millis(2000)).unwrap();
    assert!(guard.ensure_valid_for(PATIENCE * 2).unwrap_err().is_lost());
    assert!(guard.is_valid(), "the check does not lose the lock");
    guard.release().await.unwrap();
}
