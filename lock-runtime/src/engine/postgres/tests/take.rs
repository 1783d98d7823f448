use super::{Process, soon, text};
use crate::engine::error::EngineErrorKind;
use crate::engine::request::{Claim, EnqueueReply};
use crate::engine::token::Token;
use crate::limit::Limit;
use lock_test_support::postgres::Postgres;
use tokio_postgres::types::ToSql;

const DAY: u64 = 24 * 3600 * 1_000_000;

#[tokio::test]
async fn lock_goes_to_the_next_and_the_number_lies_between() {
    let server = Postgres::start();
    let (holder, mut waiter, operator) = (
        Process::of(&server).await,
        Process::of(&server).await,
        Process::of(&server).await,
    );
    let held = holder.acquire("lock:row", Limit::EXCLUSIVE).await;
    let before = holder.fencing_token(&held, soon()).await.unwrap();
    let waits = waiter.wait("lock:row").await;
    let taken = operator.take_from(&held).await;
    assert!(taken.held && !taken.pinned);
    assert!(Some(taken.fencing_token) > before);
    assert_eq!(waiter.next_grant().await.token, waits.token);
    let after = waiter.fencing_token(&waits, soon()).await.unwrap();
    assert!(after > Some(taken.fencing_token));
    let renewed = holder.renew(std::slice::from_ref(&held), soon()).await;
    assert!(matches!(renewed.unwrap()[..], [Ok(false)]));
    assert_eq!(holder.fencing_token(&held, soon()).await.unwrap(), None);
    assert!(!holder.release(&held, soon()).await.unwrap());
    assert!(waiter.release(&waits, soon()).await.unwrap());
}

#[tokio::test]
async fn repeated_or_of_another_token_it_takes_nothing() {
    let server = Postgres::start();
    let process = Process::of(&server).await;
    let held = process.acquire("lock:row", Limit::EXCLUSIVE).await;
    let first = process.take_from(&held).await;
    let next = process.acquire("lock:row", Limit::EXCLUSIVE).await;
    let again = process.take_from(&held).await;
    assert!(first.held && !again.held);
    assert!(again.fencing_token > first.fencing_token);
    for token in ["", "?", "0123456789ab8def8123456789abcdef"] {
        assert!(!process.take_token("lock:row", token).await.held, "{token}");
    }
    assert!(!process.take_token("lock:other", &text(&next)).await.held);
    assert_eq!(process.holders("lock:row").await, [text(&next)]);
    assert!(process.release(&next, soon()).await.unwrap());
}

#[tokio::test]
async fn taken_token_acquires_nothing_that_comes_later() {
    let server = Postgres::start();
    let process = Process::of(&server).await;
    let held = process.acquire("lock:row", Limit::EXCLUSIVE).await;
    assert!(process.take_from(&held).await.held);
    let reply = process.ask_for(&held).await;
    assert!(matches!(reply, EnqueueReply::Stale), "{reply:?}");
    let next = Token::draw(process.id).with_limit(Limit::UNLIMITED);
    let downgraded = process.downgrade(&held, next, soon()).await;
    assert_eq!(downgraded.unwrap(), None);
    assert!(!process.cancel(&held, false, soon()).await.unwrap());
    let reply = process.ask_for(&held).await;
    assert!(matches!(reply, EnqueueReply::Stale), "{reply:?}");
    assert!(process.holders("lock:row").await.is_empty());
    // It is of that lock alone.
    let elsewhere = Claim {
        name: "lock:other".into(),
        ..held
    };
    let reply = process.ask_for(&elsewhere).await;
    assert!(matches!(reply, EnqueueReply::Granted(_)), "{reply:?}");
    assert!(process.release(&elsewhere, soon()).await.unwrap());
}

#[tokio::test]
async fn waiter_is_taken_from_the_queue() {
    let server = Postgres::start();
    let process = Process::of(&server).await;
    let held = process.acquire("lock:row", Limit::EXCLUSIVE).await;
    let waits = process.wait("lock:row").await;
    assert!(!process.take_from(&waits).await.held);
    let reply = process.ask_for(&waits).await;
    assert!(matches!(reply, EnqueueReply::Stale), "{reply:?}");
    assert!(process.release(&held, soon()).await.unwrap());
    assert!(process.holders("lock:row").await.is_empty());
}

#[tokio::test]
async fn one_of_several_readers_is_taken() {
    let server = Postgres::start();
    let process = Process::of(&server).await;
    let mut readers = Vec::new();
    for _ in 0..3 {
        readers.push(process.acquire("lock:row", Limit::UNLIMITED).await);
    }
    assert!(process.take_from(&readers[1]).await.held);
    let expected = [text(&readers[0]), text(&readers[2])];
    assert_eq!(process.holders("lock:row").await, expected);
    for reader in [&readers[0], &readers[2]] {
        assert!(process.release(reader, soon()).await.unwrap());
    }
}

#[tokio::test]
async fn lock_of_another_client_is_taken_by_its_text() {
    let server = Postgres::start();
    let process = Process::of(&server).await;
    process.names("", 1, soon()).await.unwrap();
    server.execute(
        "INSERT INTO distributed_lock.held VALUES ('lock:row', 'theirs', 1, 1, now() + interval '1 h')",
    );
    let found = process.holders("lock:row").await;
    assert_eq!(found, ["theirs"]);
    assert!(process.take_token("lock:row", &found[0]).await.held);
    let next = process.acquire("lock:row", Limit::EXCLUSIVE).await;
    assert!(process.release(&next, soon()).await.unwrap());
}

#[tokio::test]
async fn number_is_not_less_than_asked_and_all_later_ones_are_greater() {
    let server = Postgres::start();
    let process = Process::of(&server).await;
    let held = process.acquire("lock:row", Limit::EXCLUSIVE).await;
    let before = process.fencing_token(&held, soon()).await.unwrap().unwrap();
    let at_least = before + DAY / 24;
    let token = text(&held);
    let taken = process.take("lock:row", &token, at_least, soon()).await;
    let taken = taken.unwrap();
    assert!(taken.held && taken.fencing_token >= at_least, "{taken:?}");
    let next = process.acquire("lock:row", Limit::EXCLUSIVE).await;
    for _ in 0..3 {
        let later = process.fencing_token(&next, soon()).await.unwrap();
        assert!(later > Some(taken.fencing_token));
    }
    // What would leave no numbers for later is refused, and changes nothing.
    for far in [before + 3 * DAY, i64::MAX as u64, u64::MAX] {
        let refused = process.take("lock:row", &text(&next), far, soon()).await;
        assert_eq!(refused.unwrap_err().kind, EngineErrorKind::Rejected);
    }
    assert!(process.release(&next, soon()).await.unwrap());
}

/// The transaction may still commit.
#[tokio::test]
async fn pinned_lock_is_free_when_the_transaction_has_ended() {
    let server = Postgres::start();
    let process = Process::of(&server).await;
    let held = process.acquire("lock:row", Limit::EXCLUSIVE).await;
    let proof = process.prove(std::slice::from_ref(&held), soon()).await;
    let proof = proof.unwrap().unwrap();
    let mut client = server.client().await;
    let transaction = client.transaction().await.unwrap();
    let (names, numbers) = (proof.names(), proof.numbers());
    let arguments: [&(dyn ToSql + Sync); 2] = [&names, &numbers];
    let ensured = transaction.execute(proof.statement(), &arguments).await;
    ensured.unwrap();
    let waits = process.wait("lock:row").await;
    let taken = process.take_from(&held).await;
    assert!(taken.held && taken.pinned);
    let again = process.take_from(&held).await;
    assert!(!again.held && again.pinned);
    let reply = process.ask_for(&waits).await;
    assert!(matches!(reply, EnqueueReply::Queued(_)), "{reply:?}");
    transaction.commit().await.unwrap();
    let after = process.take_from(&held).await;
    assert!(!after.held && !after.pinned);
    let reply = process.ask_for(&waits).await;
    let is_held = matches!(
        reply,
        EnqueueReply::Granted(_) | EnqueueReply::AlreadyHeld(_)
    );
    assert!(is_held, "{reply:?}");
    assert!(process.release(&waits, soon()).await.unwrap());
}

/// A later crash does not give the lock back to its holder.
#[tokio::test]
async fn what_was_taken_survives_a_crash() {
    let mut server = Postgres::start();
    let process = Process::of(&server).await;
    let held = process.acquire("lock:row", Limit::EXCLUSIVE).await;
    assert!(process.take_from(&held).await.held);
    server.kill();
    server.restart();
    let process = Process::of(&server).await;
    assert!(process.holders("lock:row").await.is_empty());
    let reply = process.ask_for(&held).await;
    assert!(matches!(reply, EnqueueReply::Stale), "{reply:?}");
}

#[tokio::test]
async fn tokens_that_were_taken_long_ago_are_forgotten() {
    let server = Postgres::start();
    let process = Process::of(&server).await;
    let held = process.acquire("lock:row", Limit::EXCLUSIVE).await;
    process.take_from(&held).await;
    server.execute("UPDATE distributed_lock.taken SET expires_at = now() - interval '1 s'");
    let reply = process.ask_for(&held).await;
    assert!(matches!(reply, EnqueueReply::Granted(_)), "{reply:?}");
    assert!(process.release(&held, soon()).await.unwrap());
    process.take_token("lock:other", "x").await;
    let left = "SELECT count(*) FROM distributed_lock.taken";
    assert_eq!(server.query::<usize>(left), 1);
}
