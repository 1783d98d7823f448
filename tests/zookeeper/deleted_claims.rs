//! Another client, such as an operator with `deleteall`, deletes the nodes of claims.

use lock_runtime::{LockGuard, LockManager};
use tokio::task::JoinHandle;

use lock_test_support::manager::connected;
use lock_test_support::time::{eventually, millis, patient, soon};
use lock_test_support::zookeeper::ZooKeeper;

const LOCK: &str = "/lock/row";

struct Line {
    zookeeper: ZooKeeper,
    holder: LockManager,
    waits: LockManager,
}

impl Line {
    async fn start() -> Self {
        let zookeeper = ZooKeeper::start();
        let connect = || connected(patient(zookeeper.url()));
        let (holder, waits) = tokio::join!(connect(), connect());
        Self {
            zookeeper,
            holder,
            waits,
        }
    }

    /// Returns the paths of all claims, the earliest first.
    fn claims(&self) -> Vec<String> {
        self.zookeeper.client().line(LOCK)
    }

    fn until_claims(&self, count: usize) {
        let is_complete = || self.claims().len() == count;
        eventually("the line is complete", is_complete);
    }

    /// Begins to wait behind a holder, for itself or with readers.
    async fn wait(&self, reads: bool) -> (LockGuard, JoinHandle<LockGuard>) {
        let held = self.holder.lock("row").acquire().await.unwrap();
        let lock = self.waits.lock("row");
        let lock = if reads { lock.read() } else { lock };
        let waiter = tokio::spawn(async { lock.acquire().await.unwrap() });
        self.until_claims(2);
        // Until it has asked where it stands.
        tokio::time::sleep(millis(100)).await;
        (held, waiter)
    }

    async fn close(self) {
        self.holder.shutdown().await;
        self.waits.shutdown().await;
    }
}

/// The end of the claim before it does not tell that the lock is its own: its own claim ended before.
#[tokio::test(flavor = "multi_thread")]
async fn waiter_without_a_claim_holds_nothing_when_the_one_before_it_ends() {
    let line = Line::start().await;
    for reads in [false, true] {
        let (held, waiter) = line.wait(reads).await;
        let mut claims = line.claims();
        claims.reverse();
        assert!(line.zookeeper.client().delete_together(&claims));
        let guard = soon(waiter).await.unwrap();
        assert!(guard.fencing_token().await.unwrap() > 0);
        assert_eq!(line.claims().len(), 1);
        guard.release().await.unwrap();
        assert!(held.release().await.unwrap_err().is_lost());
    }
    line.close().await;
}

/// It need not wait for the claim before it to end.
#[tokio::test(flavor = "multi_thread")]
async fn waiter_whose_claim_was_deleted_enters_again_at_once() {
    let line = Line::start().await;
    let (held, waiter) = line.wait(false).await;
    let before = line.claims();
    assert!(line.zookeeper.client().delete(&before[1]));
    line.until_claims(2);
    let after = line.claims();
    assert_eq!(after[0], before[0]);
    assert_ne!(after[1], before[1]);
    assert!(held.is_valid() && !waiter.is_finished());
    held.release().await.unwrap();
    soon(waiter).await.unwrap().release().await.unwrap();
    line.close().await;
}
