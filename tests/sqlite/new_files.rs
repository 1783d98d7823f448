//! Processes that open a new file at once.

use lock_runtime::LockManager;

use lock_test_support::server::temporary;
use lock_test_support::time::patient;
use lock_test_support::worker::{Worker, arguments, block_on, next_order, report_event};

const FILES: usize = 10;

/// Each of them may find a file that another one has made half.
#[test]
fn new_file_is_made_once() {
    if arguments().is_some() {
        return block_on(open_each());
    }
    let folder = temporary("lock-sqlite-");
    let start = || Worker::start(new_file_is_made_once, &[""]);
    let mut workers: Vec<_> = (0..4).map(|_| start()).collect();
    workers.iter().for_each(|it| drop(it.expect("ready")));
    for n in 0..FILES {
        let path = folder.path().join(format!("{n}.db"));
        let url = format!("sqlite://{}", path.display());
        workers.iter_mut().for_each(|it| it.order(&url));
        // One of them has the lock.
        let held = workers.iter().map(|it| it.expect("held") == "true");
        assert_eq!(held.filter(|it| *it).count(), 1);
        workers.iter_mut().for_each(|it| it.order("next"));
        workers.iter().for_each(|it| drop(it.expect("closed")));
    }
}

async fn open_each() {
    report_event("ready");
    for _ in 0..FILES {
        let config = patient(next_order());
        let locks = LockManager::connect(config).await.unwrap();
        let guard = locks.lock("row").try_acquire().await.unwrap();
        report_event(format!("held {}", guard.is_some()));
        next_order();
        drop(guard);
        locks.shutdown().await;
        report_event("closed");
    }
}
