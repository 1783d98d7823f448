//! Threads without a runtime lock like tasks.

use std::sync::Arc;
use std::thread;
use std::time::Instant;

use lock_runtime::{LockError, LockManager};
use tokio::task::spawn_blocking;

use super::fixture::Fixture;
use lock_test_support::exclusion::Exclusion;
use lock_test_support::time::{millis, soon};

/// Among them are tasks, on either side.
pub async fn plain_threads_and_tasks_exclude_each_other(fixture: Fixture) {
    const ROUNDS: u64 = 5;
    let (row, exclusion) = (fixture.key("row"), Arc::<Exclusion>::default());
    let config = fixture.config();
    let connect = || LockManager::blocking_connect(config).unwrap();
    let own = spawn_blocking(connect).await.unwrap();
    let managers = [
        own.clone(),
        fixture.locks().clone(),
        fixture.other().clone(),
    ];
    let workers: Vec<_> = managers
        .into_iter()
        .map(|locks| {
            let (row, exclusion) = (row.clone(), exclusion.clone());
            thread::spawn(move || {
                let mut tokens = Vec::new();
                for _ in 0..ROUNDS {
                    let guard = locks.lock(&*row).blocking_acquire().unwrap();
                    let until = Instant::now() + guard.remaining();
                    let holding = exclusion.enter("a thread", 1, until);
                    tokens.push(guard.blocking_fencing_token().unwrap());
                    guard.ensure_valid_for(millis(1)).unwrap();
                    drop(holding);
                    // On either path.
                    match tokens.len() % 2 {
                        0 => guard.blocking_release().unwrap(),
                        _ => drop(guard),
                    }
                }
                tokens
            })
        })
        .collect();
    let mut tokens = Vec::new();
    for _ in 0..ROUNDS {
        let guard = fixture.locks().lock(&*row).acquire().await.unwrap();
        let holding = exclusion.enter("a task", 1, Instant::now() + guard.remaining());
        tokens.push(guard.fencing_token().await.unwrap());
        drop(holding);
        guard.release().await.unwrap();
    }
    let join = || {
        workers
            .into_iter()
            .flat_map(|it| it.join().unwrap())
            .collect()
    };
    let of_threads: Vec<u64> = spawn_blocking(join).await.unwrap();
    tokens.extend(of_threads);
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len() as u64, ROUNDS * 4);
    fixture.until_free(&row).await;
    let shutdown = move || own.blocking_shutdown().unwrap();
    spawn_blocking(shutdown).await.unwrap();
}

pub async fn plain_thread_waits_no_longer_than_asked(fixture: Fixture) {
    let row = fixture.key("row");
    let holder = fixture.locks().lock(&*row).acquire().await.unwrap();
    let lock = fixture.locks().lock(&*row).wait(millis(300));
    let begun = Instant::now();
    let waited = soon(spawn_blocking(move || lock.blocking_acquire()));
    let waited = waited.await.unwrap();
    assert!(waited.unwrap_err().is_busy());
    assert!(begun.elapsed() >= millis(300));
    holder.release().await.unwrap();
    // The claim that was given up may have been granted meanwhile.
    fixture.until_free(&row).await;
    // In a task, it fails at once and sends nothing.
    let error = fixture.locks().lock(&*row).blocking_acquire();
    let error = error.unwrap_err();
    assert!(matches!(error, LockError::Unsupported { .. }), "{error}");
    assert!(!fixture.is_held(&row).await);
}
