//! Taking a lock from its holder.

use crate::engine::error::EngineErrorKind;
use crate::engine::operations::Taken;
use crate::engine::redis::take::is_ours;
use crate::engine::redis::tests::{Process, claim, reader, soon, text};
use crate::engine::request::{Claim, EnqueueReply};
use crate::engine::token::Token;
use crate::limit::Limit;
use lock_test_support::cluster::Cluster;
use lock_test_support::server::Server;

async fn take(by: &Process, name: &str, token: &str) -> Taken {
    by.engine.take(name, token, 0, soon()).await.unwrap()
}

async fn take_claim(by: &Process, claim: &Claim) -> Taken {
    take(by, &claim.name, &text(claim.token)).await
}

async fn a_taken_lock_is_passed_on(url: String) {
    let stuck = Process::connect(url.clone()).await;
    let mut next = Process::connect(url.clone()).await;
    let operator = Process::connect(url).await;
    let (mine, theirs) = (claim("door"), claim("door"));
    stuck.hold(&mine).await;
    let first = stuck.number(&mine).await.unwrap();
    next.wait(&theirs).await;

    let taken = take_claim(&operator, &mine).await;
    assert!(taken.held && !taken.pinned, "{taken:?}");
    assert!(taken.fencing_token > first, "{taken:?}");
    assert_eq!(next.granted().await, theirs.token);

    // Whatever the former holder sends comes too late.
    assert!(!stuck.renew(&mine).await);
    assert_eq!(stuck.number(&mine).await, None);
    let shared = mine.token.again().with_limit(Limit::UNLIMITED);
    let downgraded = stuck.engine.downgrade(&mine, shared, soon()).await;
    assert_eq!(downgraded.unwrap(), None);
    assert!(!stuck.release(&mine).await);
    assert!(!stuck.engine.cancel(&mine, false, soon()).await.unwrap());

    let again = take_claim(&operator, &mine).await;
    assert!(!again.held, "{again:?}");
    assert!(again.fencing_token > taken.fencing_token);
    let at_least = again.fencing_token + 1_000_000_000_000;
    let (name, token) = (&*theirs.name, text(mine.token));
    let raised = operator.engine.take(name, &token, at_least, soon()).await;
    let raised = raised.unwrap().fencing_token;
    assert!(raised >= at_least, "{raised}");
    assert!(next.number(&theirs).await.unwrap() > raised);

    assert!(next.release(&theirs).await);
    let late = stuck.enqueue(&mine).await;
    assert!(matches!(late, EnqueueReply::Stale), "{late:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_taken_lock_is_passed_on_by_a_server() {
    let server = Server::start();
    a_taken_lock_is_passed_on(server.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_taken_lock_is_passed_on_by_a_cluster() {
    let cluster = Cluster::plan().without_replicas().start();
    a_taken_lock_is_passed_on(cluster.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_is_not_taken_from_another_holder() {
    let server = Server::start();
    let process = Process::connect(server.url()).await;
    let (mine, other) = (claim("door"), claim("door"));
    process.hold(&mine).await;
    for token in [&*text(other.token), "", "?", "*", &text(mine.token)[1..]] {
        let taken = take(&process, &mine.name, token).await;
        assert!(!taken.held, "{token}");
    }
    assert!(process.renew(&mine).await);
    assert!(process.release(&mine).await);
    let taken = take_claim(&process, &mine).await;
    assert!(!taken.held && taken.fencing_token > 0, "{taken:?}");
}

/// In a cluster, every token is in the slot of the lock, whatever braces it has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_of_other_clients_are_taken_by_their_text() {
    let (server, cluster) = (Server::start(), Cluster::plan().without_replicas().start());
    let master = cluster.master_of(cluster.slot("lock:door")).unwrap();
    let node = cluster.node(master);
    for (url, server) in [(server.url(), &server), (cluster.url(), node)] {
        let mut process = Process::connect(url).await;
        for token in [
            "b4c1a7f0d5e911ee8c990242ac120002",
            "B4C1A7F0-D5E9-11EE-8C99-0242AC120002",
            "{b4c1a7f0-d5e9-11ee-8c99-0242ac120002}",
            "worker:7",
            "{",
            "{}",
            "a{b}:c",
            "two\r\nlines",
            "",
            " ",
            "?",
            "7",
            "déjà vu",
        ] {
            for words in [
                &["SET", "lock:door", token][..],
                &["SET", "lock:door", token, "PX", "20000"],
            ] {
                let () = server.ask(words).unwrap();
                let theirs = claim("door");
                process.wait(&theirs).await;
                let view = process.engine.view("lock:door", 1, soon()).await.unwrap();
                assert_eq!(&*view.holders[0].token, token);
                let taken = take(&process, "lock:door", token).await;
                assert!(taken.held, "{token:?}");
                assert_eq!(process.granted().await, theirs.token);
                assert!(process.release(&theirs).await);
            }
        }
        let words = "redis.call('SET', KEYS[1], '\\255a\\254')";
        server
            .ask::<()>(&["EVAL", words, "1", "lock:door"])
            .unwrap();
        let view = process.engine.view("lock:door", 1, soon()).await.unwrap();
        assert!(
            take(&process, "lock:door", &view.holders[0].token)
                .await
                .held
        );
        assert!(
            !take(&process, "lock:door", &view.holders[0].token)
                .await
                .held
        );
        let tombstones: Vec<String> = server.query("KEYS *::gone:*");
        let ours = |key: &String| key.ends_with("b4c1a7f0d5e911ee8c990242ac120002");
        assert!(tombstones.iter().all(ours), "{tombstones:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_of_a_foreign_type_is_left_alone() {
    let server = Server::start();
    let process = Process::connect(server.url()).await;
    for words in [
        "HSET lock:door ? 1",
        "RPUSH lock:door ?",
        "SADD lock:door ?",
        "ZADD lock:door 7 ?",
    ] {
        server.query::<()>(words);
        let taken = take(&process, "lock:door", "?").await;
        assert!(!taken.held && taken.fencing_token > 0, "{words}");
        assert_eq!(server.query::<usize>("DEL lock:door"), 1, "{words}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_several_readers_is_taken() {
    let server = Server::start();
    let mut process = Process::connect(server.url()).await;
    let readers = [reader("page"), reader("page"), reader("page")];
    for reader in &readers {
        process.hold(reader).await;
    }
    let writer = claim("page");
    process.wait(&writer).await;
    for (taken, reader) in readers.iter().enumerate() {
        assert!(take_claim(&process, reader).await.held);
        assert!(!take_claim(&process, reader).await.held);
        for (n, other) in readers.iter().enumerate() {
            assert_eq!(process.renew(other).await, n > taken, "{n} after {taken}");
        }
    }
    assert_eq!(process.granted().await, writer.token);
    assert!(process.release(&writer).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_taken_waiter_leaves_the_queue() {
    let server = Server::start();
    let process = Process::connect(server.url()).await;
    let (holder, first, second) = (claim("door"), claim("door"), claim("door"));
    process.hold(&holder).await;
    process.wait(&first).await;
    process.wait(&second).await;
    assert!(!take_claim(&process, &first).await.held);
    let late = process.enqueue(&first).await;
    assert!(matches!(late, EnqueueReply::Stale), "{late:?}");
    let view = process.engine.view("lock:door", 9, soon()).await.unwrap();
    assert_eq!(view.waiters, [text(second.token).into_boxed_str()]);
    assert!(!process.engine.cancel(&second, false, soon()).await.unwrap());
    assert!(process.release(&holder).await);
}

/// Otherwise the lock would be free without a number.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_taken_if_no_number_can_be_drawn() {
    let server = Server::start();
    let process = Process::connect(server.url()).await;
    let mine = claim("door");
    process.hold(&mine).await;
    for words in ["SET lock:::fence nonsense", "HSET lock:::fence a 1"] {
        server.query::<()>("DEL lock:::fence");
        server.query::<()>(words);
        let token = text(mine.token);
        let error = process.engine.take("lock:door", &token, 0, soon()).await;
        assert_eq!(error.unwrap_err().kind, EngineErrorKind::Rejected);
        assert!(process.renew(&mine).await, "{words}");
    }
    server.query::<()>("DEL lock:::fence");
    assert!(process.release(&mine).await);
}

#[test]
fn a_token_of_ours_is_recognized() {
    let ours = Token::random();
    assert!(is_ours(&text(ours)));
    assert!(is_ours(&text(ours.with_limit(Limit::UNLIMITED))));
    for other in [
        "",
        "{}",
        "0123456789abcdef0123456789abcdeF",
        "urn:uuid:b4c1a7f0-d5e9-11ee-8c99-0242ac120002",
    ] {
        assert!(!is_ours(other), "{other}");
    }
}
