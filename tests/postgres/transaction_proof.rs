//! Work in the user's own transaction is safe even from a paused holder: `ensure` refuses the commit of a
//! holder that has lost its lock, and keeps others from acquiring it until the transaction ends.

use super::fixture::{ensure, run};
use lock_runtime::{LockError, LockGuard, LockManager, TransactionProof};
use tokio::task::{JoinHandle, JoinSet};
use tokio_postgres::{Client, NoTls, Transaction};

use lock_test_support::manager::{connected, until_renewed};
use lock_test_support::postgres::Postgres;
use lock_test_support::time::{PATIENCE, eventually, millis, patient, soon};
use lock_test_support::worker::{Worker, arguments, block_on, next_order, report_event};

fn server_with_account() -> Postgres {
    let server = Postgres::start();
    server.execute("CREATE TABLE account (balance int NOT NULL); INSERT INTO account VALUES (100)");
    server
}

async fn balance(client: &impl tokio_postgres::GenericClient) -> i32 {
    client
        .query_one("SELECT balance FROM account", &[])
        .await
        .unwrap()
        .get(0)
}

async fn set(transaction: &Transaction<'_>, balance: i32) {
    let update = "UPDATE account SET balance = $1";
    assert_eq!(transaction.execute(update, &[&balance]).await.unwrap(), 1);
}

/// In the worker: reads the balance under the lock, reports, and writes when it has been paused meanwhile.
fn withdraw_when_resumed(server: &str, ensured: bool) {
    block_on(async {
        let locks = connected(patient(server)).await;
        let (mut client, connection) = tokio_postgres::connect(server, NoTls).await.unwrap();
        tokio::spawn(connection);
        let guard = locks.lock("account").acquire().await.unwrap();
        // It needs no request after the pause, which would find the lease ended.
        let proof = guard.transaction_proof().await.unwrap();
        let read = balance(&client).await;
        report_event("has read");
        next_order();
        let transaction = client.transaction().await.unwrap();
        let done = async {
            if ensured {
                run(&transaction, &proof).await?;
            }
            set(&transaction, read - 10).await;
            transaction.commit().await
        };
        match done.await {
            Ok(()) => report_event("committed"),
            Err(error) => {
                let code = error.code().map_or("none", |code| code.code());
                report_event(format!("refused {code}"));
            }
        }
    });
}

/// Pauses a holder until its lease has ended, while another one writes. Returns the first one's report, and
/// the balance afterwards.
fn pause_a_holder<T: Fn() + Copy>(test: T, ensured: bool) -> Option<(String, i32)> {
    if let Some(arguments) = arguments() {
        withdraw_when_resumed(&arguments[0], arguments[1] == "true");
        return None;
    }
    let server = server_with_account();
    let mut paused = Worker::start(test, &[&server.url(), &ensured.to_string()]);
    paused.expect("has read");
    paused.pause();
    server.end_lease("account");
    block_on(async {
        let locks = connected(patient(server.url())).await;
        let guard = locks.lock("account").acquire().await.unwrap();
        let mut client = server.client().await;
        let transaction = client.transaction().await.unwrap();
        ensure(&transaction, &guard).await.unwrap();
        let read = balance(&transaction).await;
        set(&transaction, read - 1).await;
        transaction.commit().await.unwrap();
        guard.release().await.unwrap();
        locks.shutdown().await;
    });
    // The order is there before the process runs again, which can notice its loss only after the write.
    paused.order("write");
    paused.resume();
    let report = paused.event(PATIENCE).unwrap();
    paused.succeeds();
    Some((report, server.query("SELECT balance FROM account")))
}

#[test]
fn commit_of_a_paused_holder_is_refused() {
    let Some((report, balance)) = pause_a_holder(commit_of_a_paused_holder_is_refused, true) else {
        return;
    };
    assert_eq!(report, "refused DL001");
    assert_eq!(balance, 99, "only the second holder's write counts");
}

/// The control: a lock alone cannot prevent it.
#[test]
fn without_ensure_a_paused_holder_overwrites_the_next_one() {
    let test = without_ensure_a_paused_holder_overwrites_the_next_one;
    let Some((report, balance)) = pause_a_holder(test, false) else {
        return;
    };
    assert_eq!(report, "committed");
    assert_eq!(balance, 90, "the second holder's write is lost");
}

/// Two managers and a client of a server, which is dropped last.
struct Pinned {
    locks: LockManager,
    other: LockManager,
    client: Client,
    server: Postgres,
}

impl Pinned {
    async fn start() -> Self {
        let server = server_with_account();
        let locks = connected(patient(server.url())).await;
        let other = connected(patient(server.url())).await;
        let client = server.client().await;
        Self {
            locks,
            other,
            client,
            server,
        }
    }

    async fn refuses(&mut self, proof: &TransactionProof) {
        let transaction = self.client.transaction().await.unwrap();
        let refused = run(&transaction, proof).await.unwrap_err();
        assert_eq!(refused.code().unwrap().code(), "DL001");
    }
}

type Waiter = JoinHandle<Result<LockGuard, LockError>>;

fn waits(locks: &LockManager) -> Waiter {
    tokio::spawn(locks.lock("account").acquire())
}

async fn is_served(waiter: Waiter) -> LockGuard {
    soon(waiter).await.unwrap().unwrap()
}

/// A transaction that has ensured its lock keeps it from others after the lease has ended, until it ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ensured_transaction_outlives_the_lease() {
    let mut pinned = Pinned::start().await;
    let lock = pinned.locks.lock("account").renew(false);
    let guard = lock.acquire().await.unwrap();
    let transaction = pinned.client.transaction().await.unwrap();
    let proof = guard.transaction_proof().await.unwrap();
    run(&transaction, &proof).await.unwrap();
    pinned.server.end_lease("account");
    let waiter = waits(&pinned.other);
    tokio::time::sleep(millis(300)).await;
    assert!(!waiter.is_finished(), "the transaction still has the lock");
    let once = soon(pinned.other.lock("account").try_acquire()).await;
    let once = once.unwrap();
    assert!(
        once.is_none(),
        "a single try does not wait for the transaction"
    );
    set(&transaction, 1).await;
    transaction.commit().await.unwrap();
    let next = is_served(waiter).await;
    // The first holder's token is refused from now on.
    pinned.refuses(&proof).await;
    next.release().await.unwrap();
}

/// Renewals do not wait for the transaction, and the transaction does not wait for them.
#[tokio::test]
async fn renewals_pass_an_ensured_transaction() {
    let mut pinned = Pinned::start().await;
    let ttl = millis(6000);
    let guard = pinned.locks.lock("account").ttl(ttl).acquire().await;
    let guard = guard.unwrap();
    let transaction = pinned.client.transaction().await.unwrap();
    ensure(&transaction, &guard).await.unwrap();
    until_renewed([&guard]).await;
    ensure(&transaction, &guard).await.unwrap();
    transaction.commit().await.unwrap();
    guard.release().await.unwrap();
}

/// A release beside an open transaction takes effect when that ends.
#[tokio::test]
async fn release_beside_an_ensured_transaction_hands_on_at_its_end() {
    let mut pinned = Pinned::start().await;
    let guard = pinned.locks.lock("account").acquire().await.unwrap();
    let transaction = pinned.client.transaction().await.unwrap();
    ensure(&transaction, &guard).await.unwrap();
    soon(guard.release()).await.unwrap();
    let busy = pinned.other.lock("account").try_acquire().await.unwrap();
    assert!(busy.is_none(), "the transaction still has the lock");
    let waiter = waits(&pinned.other);
    tokio::time::sleep(millis(300)).await;
    assert!(!waiter.is_finished());
    transaction.rollback().await.unwrap();
    let guard = is_served(waiter).await;
    guard.release().await.unwrap();
}

/// Releases that are sent together end at once, but for that of a lock which a transaction has.
#[tokio::test]
async fn releases_sent_together_pass_an_ensured_transaction() {
    let mut pinned = Pinned::start().await;
    let names = ["first", "second", "account", "last"];
    let transaction = pinned.client.transaction().await.unwrap();
    let mut guards = Vec::new();
    for name in names {
        let guard = pinned.locks.lock(name).acquire().await.unwrap();
        if name == "account" {
            ensure(&transaction, &guard).await.unwrap();
        }
        guards.push(guard);
    }
    let releases: JoinSet<_> = guards.into_iter().map(LockGuard::release).collect();
    for released in soon(releases.join_all()).await {
        released.unwrap();
    }
    for name in names {
        let acquired = pinned.other.lock(name).try_acquire().await.unwrap();
        assert_eq!(acquired.is_some(), name != "account", "{name}");
    }
    transaction.commit().await.unwrap();
    let guard = pinned.other.lock("account").try_acquire().await.unwrap();
    assert!(
        guard.is_some(),
        "the release takes effect at the end of the transaction"
    );
}

/// The body ends before its transaction, as one does that is canceled during the commit. A waiter of the same
/// process must not get the lock beside that transaction, either.
#[tokio::test]
async fn local_waiter_gets_the_lock_after_an_ensured_transaction() {
    let mut pinned = Pinned::start().await;
    let guard = pinned.locks.lock("account").acquire().await.unwrap();
    let transaction = pinned.client.transaction().await.unwrap();
    ensure(&transaction, &guard).await.unwrap();
    let mut waiter = waits(&pinned.locks);
    tokio::time::sleep(millis(100)).await;
    drop(guard);
    let early = tokio::time::timeout(millis(300), &mut waiter).await;
    assert!(early.is_err(), "two holders at once");
    transaction.rollback().await.unwrap();
    let next = is_served(waiter).await;
    next.release().await.unwrap();
}

/// A downgrade does not wait for the holder's own transaction, and readers enter when that has ended.
#[tokio::test]
async fn downgrade_beside_an_ensured_transaction_admits_readers_at_its_end() {
    let mut pinned = Pinned::start().await;
    let ttl = millis(6000);
    let guard = pinned.locks.lock("account").ttl(ttl).acquire().await;
    let guard = guard.unwrap();
    let proof = guard.transaction_proof().await.unwrap();
    let transaction = pinned.client.transaction().await.unwrap();
    run(&transaction, &proof).await.unwrap();
    let guard = soon(guard.downgrade()).await.unwrap();
    let reader = pinned.other.lock("account").read();
    let early = reader.try_acquire().await.unwrap();
    assert!(early.is_none(), "the transaction still excludes readers");
    until_renewed([&guard]).await;
    transaction.commit().await.unwrap();
    let reader = soon(pinned.other.lock("account").read().acquire()).await;
    let reader = reader.unwrap();
    // What was proven was exclusive.
    pinned.refuses(&proof).await;
    let transaction = pinned.client.transaction().await.unwrap();
    ensure(&transaction, &guard).await.unwrap();
    transaction.commit().await.unwrap();
    guard.release().await.unwrap();
    reader.release().await.unwrap();
}

/// Nor does a reader of the same process, whom the release of the downgraded lock would let in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn local_reader_gets_a_downgraded_lock_after_an_ensured_transaction() {
    let mut pinned = Pinned::start().await;
    let guard = pinned.locks.lock("account").acquire().await.unwrap();
    let transaction = pinned.client.transaction().await.unwrap();
    ensure(&transaction, &guard).await.unwrap();
    let mut reader = tokio::spawn(pinned.locks.lock("account").read().acquire());
    tokio::task::block_in_place(|| pinned.server.until_waiting("account", 1));
    guard.downgrade().await.unwrap().release().await.unwrap();
    let early = tokio::time::timeout(millis(300), &mut reader).await;
    assert!(early.is_err(), "a reader beside an exclusive holder");
    transaction.commit().await.unwrap();
    is_served(reader).await.release().await.unwrap();
}

/// What else holders do with their locks does not take the proof away from one that still holds its own.
#[tokio::test]
async fn proof_of_a_holder_outlasts_other_requests() {
    let mut pinned = Pinned::start().await;
    let reader = pinned.locks.lock("a").read().acquire().await.unwrap();
    let proof = reader.transaction_proof().await.unwrap();
    let both = pinned
        .locks
        .lock_all(["a", "b"])
        .read()
        .acquire()
        .await
        .unwrap();
    both.fencing_token().await.unwrap();
    let of_both = both.transaction_proof().await.unwrap();
    reader.fencing_token().await.unwrap();
    let (again, token) = tokio::join!(both.transaction_proof(), both.fencing_token());
    token.unwrap();
    let transaction = pinned.client.transaction().await.unwrap();
    for proof in [proof, of_both, again.unwrap()] {
        run(&transaction, &proof).await.unwrap();
    }
    transaction.commit().await.unwrap();
    both.release().await.unwrap();
    reader.release().await.unwrap();
}

#[tokio::test]
async fn proof_covers_all_keys_of_a_call() {
    let mut pinned = Pinned::start().await;
    let both = pinned
        .locks
        .lock_all(["account:1", "account:2"])
        .acquire()
        .await
        .unwrap();
    let transaction = pinned.client.transaction().await.unwrap();
    let proof = both.transaction_proof().await.unwrap();
    run(&transaction, &proof).await.unwrap();
    transaction.rollback().await.unwrap();
    // One of them is stolen.
    pinned.server.steal("account:2", PATIENCE);
    pinned.refuses(&proof).await;
    pinned.server.delete_lock("account:2");
    drop(both);
    let again = pinned.other.lock_all(["account:1", "account:2"]);
    soon(again.acquire())
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
}

#[tokio::test]
async fn proof_is_refused_after_the_release() {
    let mut pinned = Pinned::start().await;
    let guard = pinned.locks.lock("account").acquire().await.unwrap();
    let kept = guard.transaction_proof().await.unwrap();
    guard.release().await.unwrap();
    pinned.refuses(&kept).await;
}

/// On other engines there is no transaction to protect.
#[tokio::test]
async fn proof_needs_postgres() {
    let locks = connected("memory://").await;
    let guard = locks.lock("account").acquire().await.unwrap();
    let error = guard.transaction_proof().await.unwrap_err();
    assert!(matches!(error, LockError::Unsupported { .. }), "{error}");
    assert!(error.to_string().contains("PostgreSQL"), "{error}");
}

/// By the query of the runbook.
#[tokio::test]
async fn transaction_that_keeps_a_lock_is_found_and_ended() {
    let runbook = include_str!("../../lock-runtime/src/guide/runbook.md");
    let (_, section) = runbook
        .split_once("\n# A transaction keeps the lock")
        .unwrap();
    let (_, query) = section.split_once("```sql\n").unwrap();
    let (query, _) = query.split_once(";\n```").unwrap();
    let server = Postgres::start();
    let locks = connected(patient(server.url())).await;
    let guard = locks.lock("row").acquire().await.unwrap();
    let mut client = server.client().await;
    let transaction = client.transaction().await.unwrap();
    ensure(&transaction, &guard).await.unwrap();
    let found = server.rows(query);
    let [found] = &found[..] else {
        panic!("{found:?}")
    };
    assert_eq!(found[3], "idle in transaction", "{found:?}");
    server.execute(&format!("SELECT pg_terminate_backend({})", found[0]));
    assert!(transaction.commit().await.is_err());
    eventually("it is gone", || server.rows(query).is_empty());
    guard.release().await.unwrap();
    locks.shutdown().await;
}
