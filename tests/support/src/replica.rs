//! A server with a replica, without a Sentinel.

use crate::server::Server;
use crate::time::eventually;

/// A master delays a synchronization by this number of seconds, so that it serves several replicas.
const AT_ONCE: [&str; 2] = ["--repl-diskless-sync-delay", "0"];

/// Starts a server whose replicas are synchronized at once.
pub fn master() -> Server {
    Server::with(None, |_, _| AT_ONCE.map(str::to_owned).into())
}

/// Starts a replica of a [`master`], and waits until it follows.
pub fn replica_of(master: &Server) -> Server {
    let port = master.port().to_string();
    let follow = ["--replicaof", "127.0.0.1", &port];
    let options = [&follow[..], &AT_ONCE].concat();
    let replica = Server::with(None, |_, _| {
        options.into_iter().map(str::to_owned).collect()
    });
    eventually("the replica follows", || {
        let replication: String = master.query("INFO replication");
        replication.contains("state=online")
    });
    replica
}
