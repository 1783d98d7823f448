//! Faults between a holder and its server.

use lock_test_support::proxy::Proxy;
use lock_test_support::server::Server;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    KeyDeleted,
    KeyOverwritten,
    ServerFrozen,
    ServerKilled,
    ConnectionReset,
    RequestsDropped,
    RepliesDropped,
}

/// A server, and the network in front of it.
pub struct Servers {
    pub proxy: Proxy,
    pub server: Server,
}

impl Servers {
    /// Starts a server that persists every write, so that it can be killed and restarted.
    pub fn start() -> Self {
        let on_disk = ["--appendonly", "yes", "--appendfsync", "always"];
        let server = Server::with(None, |_, _| on_disk.map(str::to_owned).to_vec());
        let proxy = Proxy::to(server.port());
        Self { proxy, server }
    }
}

impl Fault {
    pub const ALL: [Self; 7] = [
        Self::KeyDeleted,
        Self::KeyOverwritten,
        Self::ServerFrozen,
        Self::ServerKilled,
        Self::ConnectionReset,
        Self::RequestsDropped,
        Self::RepliesDropped,
    ];

    /// Returns `true` if the fault removes the lock: the server reports the loss, and nothing undoes it.
    pub fn takes_the_key(self) -> bool {
        matches!(self, Self::KeyDeleted | Self::KeyOverwritten)
    }

    pub fn strike(self, servers: &mut Servers, keys: &[String]) {
        match self {
            Self::KeyDeleted => servers.server.query(&format!("DEL {}", keys.join(" "))),
            Self::KeyOverwritten => {
                let thefts = keys.join(" thief ");
                servers.server.query(&format!("MSET {thefts} thief"))
            }
            Self::ServerFrozen => servers.server.pause(),
            Self::ServerKilled => servers.server.kill(),
            Self::ConnectionReset => servers.proxy.cut(),
            Self::RequestsDropped => servers.proxy.hold_requests(),
            Self::RepliesDropped => servers.proxy.hold_replies(),
        }
    }

    pub fn heal(self, servers: &mut Servers, keys: &[String]) {
        match self {
            Self::KeyDeleted | Self::KeyOverwritten => Self::KeyDeleted.strike(servers, keys),
            Self::ServerFrozen => servers.server.resume(),
            Self::ServerKilled => servers.server.restart(),
            _ => servers.proxy.heal(),
        }
    }
}
