//! Locks that a transaction of the user proves.

use std::io::Write;
use std::process::{Child, Command, Stdio};

use lock_runtime::{Config, LockError, LockGuard, Revocation};
use lock_test_support::manager::connected;
use lock_test_support::mariadb::MariaDb;
use lock_test_support::time::{eventually, millis, patient, soon};

const TABLE: &str = "CREATE TABLE paid (id INT PRIMARY KEY, by_whom VARCHAR(20)) ENGINE = InnoDB";

async fn proof_of(guard: &LockGuard) -> String {
    guard
        .transaction_proof()
        .await
        .unwrap()
        .statement()
        .to_owned()
}

/// A transaction that has proven its locks, and is open.
struct Open(Child);

impl Open {
    fn begin(server: &MariaDb, proof: &str, id: u32) -> Self {
        let mut client = Command::new("mariadb");
        client.args(["--no-defaults", "--batch", "--user=root"]);
        client.arg(format!("--socket={}", server.socket().display()));
        let client = client
            .arg("shop")
            .stdin(Stdio::piped())
            .stdout(Stdio::null());
        let mut open = Self(client.spawn().unwrap());
        // The named lock says that all before it is done.
        open.run(&format!(
            "START TRANSACTION; {proof}; INSERT INTO paid VALUES ({id}, 'it'); DO GET_LOCK('done', 0);"
        ));
        eventually("the transaction has its proof", || {
            server.query("SELECT IS_USED_LOCK('done') IS NULL") == "0"
        });
        open
    }

    fn run(&mut self, statements: &str) {
        let input = self.0.stdin.as_mut().unwrap();
        writeln!(input, "{statements}").unwrap();
        input.flush().unwrap();
    }

    fn commit(mut self) {
        self.run("COMMIT;");
        drop(self.0.stdin.take());
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns `true` if a transaction with that proof commits.
fn commits(server: &MariaDb, proof: &str, id: u32, level: &str) -> bool {
    let written = server.try_query(&format!(
        "SET SESSION TRANSACTION ISOLATION LEVEL {level}; START TRANSACTION; {proof}; \
         INSERT INTO paid VALUES ({id}, 'it'); COMMIT"
    ));
    if let Err(error) = &written {
        assert!(error.contains("1690"), "{error}");
    }
    let is_there = server.query(&format!("SELECT COUNT(*) FROM paid WHERE id = {id}")) == "1";
    assert_eq!(is_there, written.is_ok());
    is_there
}

#[tokio::test(flavor = "multi_thread")]
async fn transaction_commits_only_while_the_lock_is_held() {
    let server = MariaDb::start();
    server.query(TABLE);
    let locks = connected(patient(server.url())).await;
    let levels = [
        "READ UNCOMMITTED",
        "READ COMMITTED",
        "REPEATABLE READ",
        "SERIALIZABLE",
    ];
    for (id, level) in (0..).zip(levels) {
        let guard = locks.lock("it's `row`").acquire().await.unwrap();
        let proof = proof_of(&guard).await;
        assert!(commits(&server, &proof, 2 * id, level), "{level}");
        assert_eq!(proof_of(&guard).await, proof, "it is the same hold");
        guard.release().await.unwrap();
        assert!(!commits(&server, &proof, 2 * id + 1, level), "{level}");
        // Another hold of the same process has another proof.
        let next = locks.lock("it's `row`").acquire().await.unwrap();
        assert_ne!(proof_of(&next).await, proof);
        assert!(!commits(&server, &proof, 2 * id + 1, level), "{level}");
        next.release().await.unwrap();
    }
    assert_eq!(
        server.query("SELECT COUNT(*) FROM distributed_lock_proofs"),
        "0"
    );
    locks.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lock_that_is_released_beside_its_transaction_is_handed_on_at_the_end() {
    let server = MariaDb::start();
    server.query(TABLE);
    let locks = connected(patient(server.url())).await;
    let other = connected(patient(server.url())).await;
    let guard = locks.lock("row").acquire().await.unwrap();
    let proof = proof_of(&guard).await;
    let open = Open::begin(&server, &proof, 1);
    // Renewals, other locks and proofs go on beside it.
    let second = locks.lock("second").acquire().await.unwrap();
    assert!(commits(
        &server,
        &proof_of(&second).await,
        2,
        "READ COMMITTED"
    ));
    second.release().await.unwrap();
    guard.release().await.unwrap();
    assert!(other.lock("row").try_acquire().await.unwrap().is_none());
    let waiter = tokio::spawn(other.lock("row").acquire());
    tokio::task::yield_now().await;
    open.commit();
    let next = soon(waiter).await.unwrap().unwrap();
    assert_eq!(server.query("SELECT COUNT(*) FROM paid WHERE id = 1"), "1");
    assert!(!commits(&server, &proof, 3, "READ COMMITTED"));
    next.release().await.unwrap();
    locks.shutdown().await;
    other.shutdown().await;
}

/// The lease of a holder that is gone ends, and its transaction does not.
#[tokio::test(flavor = "multi_thread")]
async fn transaction_outlives_the_lease_of_its_lock() {
    let server = MariaDb::start();
    server.query(TABLE);
    let locks = connected(patient(server.url())).await;
    let other = connected(patient(server.url())).await;
    let guard = locks
        .lock("row")
        .ttl(millis(5000))
        .renew(false)
        .acquire()
        .await
        .unwrap();
    let open = Open::begin(&server, &proof_of(&guard).await, 1);
    let lost = soon(guard.lost()).await;
    assert!(matches!(lost, LockError::Lost { .. }), "{lost}");
    let waiter = tokio::spawn(other.lock("row").acquire());
    // It looks, finds that the lease has ended, and that it may not end the proof.
    eventually("the holder is known to have left", || {
        let flags = "SELECT HEX(record) FROM distributed_locks WHERE name = 'lock:row'";
        let record = server.query(flags);
        // Behind the head, the token, the ttl, the renewals and the end.
        record.get(2 * (42 + 34)..2 * (42 + 35)) == Some("06")
    });
    assert!(!waiter.is_finished());
    open.commit();
    soon(waiter)
        .await
        .unwrap()
        .unwrap()
        .release()
        .await
        .unwrap();
    drop(guard);
    locks.shutdown().await;
    other.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lock_that_is_taken_stays_with_its_transaction() {
    let server = MariaDb::start();
    server.query(TABLE);
    let locks = connected(patient(server.url())).await;
    let other = connected(patient(server.url())).await;
    let guard = locks.lock("row").acquire().await.unwrap();
    let open = Open::begin(&server, &proof_of(&guard).await, 1);
    let taken = other.revoke("row").force().await.unwrap();
    assert!(
        matches!(taken, Revocation::InTransaction { .. }),
        "{taken:?}"
    );
    assert!(other.lock("row").try_acquire().await.unwrap().is_none());
    open.commit();
    let next = other.lock("row").acquire().await.unwrap();
    next.release().await.unwrap();
    drop(guard);
    locks.shutdown().await;
    other.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn proof_of_several_locks_fails_once_one_is_lost() {
    let server = MariaDb::start();
    server.query(TABLE);
    let locks = connected(patient(server.url())).await;
    let other = connected(patient(server.url())).await;
    let both = locks.lock_all(["a", "b"]).acquire().await.unwrap();
    let proof = proof_of(&both).await;
    assert!(commits(&server, &proof, 1, "READ COMMITTED"));
    let taken = other.revoke("b").force().await.unwrap();
    assert!(matches!(taken, Revocation::Taken { .. }), "{taken:?}");
    assert!(!commits(&server, &proof, 2, "READ COMMITTED"));
    drop(both);
    locks.shutdown().await;
    other.shutdown().await;
}

/// Readers beside the one that is proven come and go.
#[tokio::test(flavor = "multi_thread")]
async fn transaction_of_a_reader_keeps_writers_out() {
    let server = MariaDb::start();
    server.query(TABLE);
    let locks = connected(patient(server.url())).await;
    let other = connected(patient(server.url())).await;
    let reader = locks.lock("row").read().acquire().await.unwrap();
    let open = Open::begin(&server, &proof_of(&reader).await, 1);
    reader.release().await.unwrap();
    let beside = other.lock("row").read().acquire().await.unwrap();
    beside.release().await.unwrap();
    assert!(other.lock("row").try_acquire().await.unwrap().is_none());
    open.commit();
    let writer = other.lock("row").acquire().await.unwrap();
    writer.release().await.unwrap();
    locks.shutdown().await;
    other.shutdown().await;
}

#[tokio::test]
async fn table_of_proofs_is_not_made_against_the_configuration() {
    let server = MariaDb::start();
    server.query(lock_runtime::mysql::TABLE);
    let config = patient(Config::new(server.url())).create_schema(false);
    let locks = connected(config).await;
    let guard = locks.lock("row").acquire().await.unwrap();
    let error = guard.transaction_proof().await.unwrap_err();
    let text = format!("{:?}", error);
    assert!(text.contains("distributed_lock_proofs"), "{text}");
    server.query(lock_runtime::mysql::TABLE_OF_PROOFS);
    let _ = guard.transaction_proof().await.unwrap();
    guard.release().await.unwrap();
    locks.shutdown().await;
}
