//! Clients of etcd's own locks stand in the same line.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Stdio};

use lock_runtime::LeaseInfo;

use lock_test_support::etcd::Etcd;
use lock_test_support::manager::connected;
use lock_test_support::server::signal;
use lock_test_support::time::{patient, soon};

/// An `etcdctl lock` that waits for the lock or holds it.
pub(super) struct Foreign {
    process: Child,
    /// Kept open: it prints more than the line that is read.
    output: BufReader<ChildStdout>,
}

impl Foreign {
    pub(super) fn start(etcd: &Etcd, name: &str) -> Self {
        // Its lease outlasts the tests.
        let mut command = etcd.command(&["lock", "--ttl=60", name]);
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        Self { process, output }
    }

    /// Waits until it holds the lock.
    pub(super) fn until_held(&mut self) {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        assert!(line.starts_with("lock:row/"), "{line}");
    }

    pub(super) fn release(mut self) {
        signal(self.process.id(), "INT");
        self.process.wait().unwrap();
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn etcdctl_waits_in_the_same_line() {
    let etcd = Etcd::start();
    let (one, other) = (
        connected(patient(etcd.url())).await,
        connected(patient(etcd.url())).await,
    );
    let guard = one.lock("row").acquire().await.unwrap();
    let mut foreign = Foreign::start(&etcd, "lock:row");
    etcd.until_line("lock:row", 2);
    let last = tokio::spawn(other.lock("row").acquire());
    etcd.until_line("lock:row", 3);
    guard.release().await.unwrap();
    tokio::task::block_in_place(|| foreign.until_held());
    let found = one.inspect("row").await.unwrap();
    let ([holder], [waiter]) = (found.holders(), found.waiters()) else {
        panic!("{found:?}");
    };
    assert_eq!(format!("lock:{}", holder.token()), etcd.line("lock:row")[0]);
    assert_eq!(holder.lease(), Some(LeaseInfo::WithSession));
    assert_eq!(holder.process(), None);
    assert_eq!(waiter.process(), Some(other.process_id()));
    assert!(
        one.lock("row")
            .read()
            .try_acquire()
            .await
            .unwrap()
            .is_none()
    );
    assert!(!last.is_finished(), "it has passed the client before it");
    foreign.release();
    let last = soon(last).await.unwrap().unwrap();
    last.release().await.unwrap();
    one.shutdown().await;
    other.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lock_of_etcdctl_is_exclusive() {
    let etcd = Etcd::start();
    let locks = connected(patient(etcd.url())).await;
    let mut foreign = Foreign::start(&etcd, "lock:row");
    tokio::task::block_in_place(|| foreign.until_held());
    assert!(locks.lock("row").try_acquire().await.unwrap().is_none());
    assert!(
        locks
            .lock("row")
            .read()
            .try_acquire()
            .await
            .unwrap()
            .is_none()
    );
    let reader = tokio::spawn(locks.lock("row").read().acquire());
    etcd.until_line("lock:row", 2);
    foreign.release();
    let reader = soon(reader).await.unwrap().unwrap();
    // It waits for readers, too.
    let mut foreign = Foreign::start(&etcd, "lock:row");
    etcd.until_line("lock:row", 2);
    reader.release().await.unwrap();
    tokio::task::block_in_place(|| foreign.until_held());
    foreign.release();
    locks.shutdown().await;
}
