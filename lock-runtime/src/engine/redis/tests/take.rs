//! Taking a lock from its holder.

use crate::engine::error::EngineErrorKind;
use crate::engine::redis::take::is_ours;
use crate::engine::tests::peer::{soon, text};
use crate::engine::tests::space::Space;
use crate::engine::token::Token;
use crate::limit::Limit;
use lock_test_support::cluster::Cluster;
use lock_test_support::server::Server;

/// The tokens of other clients, without and with a lease.
const FOREIGN: [&str; 13] = [
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
];

pub(super) async fn locks_of_other_clients_are_taken_by_their_text(space: Space) {
    foreign_locks_are_taken(&space, &space.server()).await;
}

/// Every token is in the slot of the lock, whatever braces it has.
pub(super) async fn locks_of_other_clients_are_taken_in_a_cluster(space: Space) {
    let cluster = space.servers::<Cluster>();
    let master = cluster.master_of(cluster.slot(&space.name("door")));
    foreign_locks_are_taken(&space, cluster.node(master.unwrap())).await;
}

async fn foreign_locks_are_taken(space: &Space, server: &Server) {
    let (mut process, name) = (space.peer().await, space.name("door"));
    for token in FOREIGN {
        for lease in [&[][..], &["PX", "60000"]] {
            let words = [&["SET", &name, token], lease].concat();
            let () = server.ask(&words).unwrap();
            let waits = process.wait("door").await;
            let [holders, _] = process.view("door").await;
            assert_eq!(holders, [token]);
            let taken = process.take("door", token).await;
            assert!(taken.held, "{token:?}");
            let granted = process.until_granted(&waits).await;
            assert!(process.release(&granted).await);
        }
    }
    let words = "redis.call('SET', KEYS[1], '\\255a\\254')";
    server.ask::<()>(&["EVAL", words, "1", &name]).unwrap();
    let [holders, _] = process.view("door").await;
    assert!(process.take("door", &holders[0]).await.held);
    assert!(!process.take("door", &holders[0]).await.held);
    let pattern = format!("{}::gone:*", space.prefix);
    let tombstones: Vec<String> = server.ask(&["KEYS", &pattern]).unwrap();
    let ours = |key: &String| key.ends_with(FOREIGN[0]);
    assert!(tombstones.iter().all(ours), "{tombstones:?}");
}

pub(super) async fn a_key_of_a_foreign_type_is_left_alone(space: Space) {
    let (server, process) = (space.server(), space.peer().await);
    let name = space.name("door");
    for [command, rest] in [
        ["HSET", "? 1"],
        ["RPUSH", "?"],
        ["SADD", "?"],
        ["ZADD", "7 ?"],
    ] {
        server.query::<()>(&format!("{command} {name} {rest}"));
        let taken = process.take("door", "?").await;
        assert!(!taken.held && taken.fencing_token > 0, "{command}");
        assert_eq!(server.query::<usize>(&format!("DEL {name}")), 1);
    }
}

/// Otherwise the lock would be free without a number.
pub(super) async fn nothing_is_taken_if_no_number_can_be_drawn(space: Space) {
    let (server, process) = (space.server(), space.peer().await);
    let counter = format!("{}::fence", space.prefix);
    let held = process.hold("door").await;
    for words in [
        format!("SET {counter} nonsense"),
        format!("HSET {counter} a 1"),
    ] {
        server.query::<()>(&format!("DEL {counter}"));
        server.query::<()>(&words);
        let token = text(&held);
        let error = process.engine.take(&held.name, &token, 0, soon()).await;
        assert_eq!(error.unwrap_err().kind, EngineErrorKind::Rejected);
        assert!(process.renew(&held).await, "{words}");
    }
    server.query::<()>(&format!("DEL {counter}"));
    assert!(process.release(&held).await);
}

#[test]
fn a_token_of_ours_is_recognized() {
    let ours = Token::random();
    assert!(is_ours(&ours.to_string()));
    assert!(is_ours(&ours.with_limit(Limit::UNLIMITED).to_string()));
    for other in [
        "",
        "{}",
        "0123456789abcdef0123456789abcdeF",
        "urn:uuid:b4c1a7f0-d5e9-11ee-8c99-0242ac120002",
    ] {
        assert!(!is_ours(other), "{other}");
    }
}
