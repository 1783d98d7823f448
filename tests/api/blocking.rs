//! Blocking calls fail where a runtime polls a task, and work everywhere else.

use lock_test_support::manager::use_once;
use std::time::Duration;

use lock_runtime::{Config, LockError, LockManager};
use tokio::runtime::{Builder, Runtime};
use tokio::task::{
    LocalSet, block_in_place, spawn, spawn_blocking, spawn_local, unconstrained, yield_now,
};

fn runtimes() -> [Runtime; 2] {
    [
        Builder::new_current_thread().enable_all().build().unwrap(),
        Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap(),
    ]
}

/// A lock that a task of the same runtime holds would never be released.
fn is_refused() {
    let error = LockManager::blocking_connect("memory://").unwrap_err();
    let text = error.to_string();
    let LockError::Unsupported {
        operation, reason, ..
    } = error
    else {
        panic!("{text}");
    };
    assert_eq!(operation, "blocking_connect");
    assert!(reason.contains("a runtime polls a task") && reason.contains("spawn_blocking"));
    assert!(
        text.starts_with("`blocking_connect` is not supported here: "),
        "{text}"
    );
}

fn works() {
    let locks = LockManager::blocking_connect("memory://").unwrap();
    let guard = locks.lock("row").blocking_acquire().unwrap();
    let lock = locks.lock("row").wait(Duration::from_millis(5));
    assert!(lock.blocking_acquire().unwrap_err().is_busy());
    assert!(guard.blocking_fencing_token().unwrap() > 0);
    let lock = locks.lock("row");
    let waiter = std::thread::spawn(|| lock.blocking_acquire()?.blocking_release());
    guard.blocking_release().unwrap();
    waiter.join().unwrap().unwrap();
    drop(locks.lock("row").blocking_acquire().unwrap());
    locks.blocking_shutdown().unwrap();
}

#[test]
fn a_plain_thread_may_block() {
    works();
    let runtime = Builder::new_current_thread().build().unwrap();
    let _context = runtime.enter();
    works();
}

#[test]
fn a_task_may_not_block() {
    for runtime in runtimes() {
        runtime.block_on(async {
            is_refused();
            spawn(async { is_refused() }).await.unwrap();
            yield_now().await;
            is_refused();
            LocalSet::new()
                .run_until(async {
                    spawn_local(async { is_refused() }).await.unwrap();
                })
                .await;
            unconstrained(async { is_refused() }).await;
        });
    }
}

#[test]
fn every_blocking_method_is_refused_in_a_task() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let locks = LockManager::connect(Config::new("memory://"))
                .await
                .unwrap();
            let guard = locks.lock("row").acquire().await.unwrap();
            let errors = [
                locks.lock("other").blocking_acquire().unwrap_err(),
                guard.blocking_fencing_token().unwrap_err(),
                locks.blocking_shutdown().unwrap_err(),
                guard.blocking_release().unwrap_err(),
            ];
            let names = errors.map(|error| match error {
                LockError::Unsupported { operation, .. } => operation,
                error => panic!("{error}"),
            });
            let expected = ["acquire", "fencing_token", "shutdown", "release"];
            assert_eq!(names, expected.map(|name| format!("blocking_{name}")));
            // The guard is gone, and its lock free; the manager goes on.
            use_once(&locks, "row").await;
            assert!(locks.lock("other").try_acquire().await.unwrap().is_some());
        });
    }
}

#[test]
fn threads_for_blocking_work_may_block() {
    for runtime in runtimes() {
        runtime.block_on(async { spawn_blocking(works).await.unwrap() });
    }
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .build()
        .unwrap();
    runtime.block_on(async {
        spawn(async { block_in_place(works) }).await.unwrap();
        block_in_place(works);
        // After it, the thread polls a task again.
        is_refused();
    });
}

/// Of the guard that another task of the same thread holds.
#[test]
fn a_thread_for_blocking_work_waits_for_a_task() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let locks = LockManager::connect("memory://").await.unwrap();
            let guard = locks.lock("row").acquire().await.unwrap();
            let lock = locks.lock("row").wait(Duration::from_secs(60));
            let waiter = spawn_blocking(|| lock.blocking_acquire()?.blocking_release());
            while locks.stats().waiting == 0 {
                yield_now().await;
            }
            guard.release().await.unwrap();
            waiter.await.unwrap().unwrap();
        });
    }
}
