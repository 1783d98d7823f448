//! Which locks there are.

use crate::config::Config;
use crate::engine::error::EngineErrorKind;
use crate::engine::tests::peer::{Peer, reading};
use crate::engine::tests::space::Space;

/// A lock without a holder, for which others wait, is found by its queue; a key of a foreign type is a lock.
pub(super) async fn names_are_found_among_many_other_keys(space: Space) {
    let (server, process) = (space.server(), space.peer().await);
    assert!(!process.engine.has_index());
    process.hold("door").await;
    let waits = process.wait("door").await;
    let (door, hash) = (space.name("door"), space.name("hash"));
    server.query::<()>(&format!("DEL {door}"));
    let others = "for n = 1, 5000 do redis.call('SET', 'other:' .. n, '', 'PX', 60000) end";
    server.ask::<()>(&["EVAL", others, "0"]).unwrap();
    server.query::<()>(&format!("HSET {hash} a 1"));
    assert_eq!(process.keys("", 100).await, ["door", "hash"]);
    let others = "for n = 1, 5000 do redis.call('DEL', 'other:' .. n) end";
    server.ask::<()>(&["EVAL", others, "0"]).unwrap();
    server.query::<()>(&format!("DEL {hash}"));
    process.cancel(&waits).await;
}

pub(super) async fn a_prefix_with_wildcards_finds_only_its_own_locks(space: Space) {
    let server = space.server();
    let prefix = space.prefix.clone() + r"l[o]*?\:";
    let own = format!("{prefix}door");
    let other = |name| space.prefix.clone() + name;
    let all = [own.clone(), other("lo:door"), other("loxx:door")];
    for key in &all {
        server.ask::<()>(&["SET", key, "a"]).unwrap();
    }
    let config: Config = space.config().prefix(prefix);
    let process = Peer::connect(config).await;
    assert_eq!(process.keys("", 100).await, ["door"]);
    for key in &all {
        server.ask::<()>(&["DEL", key]).unwrap();
    }
}

pub(super) async fn listing_names_its_missing_right(space: Space) {
    space.grant_locks(&format!("&{}*", space.prefix));
    let process = space.peer_of_user().await;
    let error = process.engine.names(&space.prefix, 100, reading()).await;
    let error = error.unwrap_err();
    assert_eq!(error.kind, EngineErrorKind::Rejected);
    assert!(error.to_string().contains("scan"), "{error}");
}
