//! A disk that is full.

use lock_runtime::{LockManager, Report};

use lock_test_support::disk::Disk;
use lock_test_support::servers::Sqlite;
use lock_test_support::time::{millis, patient};
use lock_test_support::worker::{Worker, arguments, block_on, next_order, report_event};

#[test]
fn process() {
    let Some(arguments) = arguments() else { return };
    block_on(async {
        let config = patient(&*arguments[0]).report(Report::Off);
        // A refusal may pass, so that a call tries again for that time.
        let config = config.command_timeout(millis(1500));
        let locks = LockManager::connect(config).await.unwrap();
        let guard = locks.lock("row").acquire().await.unwrap();
        report_event("holds");
        while next_order() == "try" {
            let tried = loop {
                match locks.lock("other").try_acquire().await {
                    // A busy machine may have had no time for it.
                    Err(error) if format!("{error:?}").contains("no reply in time") => {}
                    tried => break tried,
                }
            };
            match tried {
                Ok(guard) => {
                    guard.unwrap().release().await.unwrap();
                    report_event("released");
                }
                Err(error) => report_event(format!("refused {error:?}")),
            }
        }
        assert!(guard.is_valid());
        guard.release().await.unwrap();
        locks.shutdown().await;
        report_event("ended");
    });
}

#[test]
fn locks_are_refused_while_the_disk_is_full() {
    let (file, disk) = (Sqlite::start(), Disk::with_room());
    let mut holder = Worker::start_on(process, &[&file.url()], &disk);
    holder.expect("holds");
    for _ in 0..3 {
        disk.fill();
        holder.order("try");
        let error = holder.expect("refused");
        assert!(error.contains("is full; make room"), "{error}");
        disk.make_room();
        holder.order("try");
        holder.expect("released");
    }
    holder.order("end");
    holder.expect("ended");
    holder.succeeds();
}
