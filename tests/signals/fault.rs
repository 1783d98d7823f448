//! Faults between a holder and its server.

use crate::support::proxy::Proxy;
use crate::support::server::Server;

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
pub struct Ground {
    pub proxy: Proxy,
    pub server: Server,
}

impl Ground {
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

    pub fn strike(self, ground: &mut Ground, keys: &[String]) {
        match self {
            Self::KeyDeleted => ground.server.query(&format!("DEL {}", keys.join(" "))),
            Self::KeyOverwritten => {
                let thefts = keys.join(" thief ");
                ground.server.query(&format!("MSET {thefts} thief"))
            }
            Self::ServerFrozen => ground.server.pause(),
            Self::ServerKilled => ground.server.kill(),
            Self::ConnectionReset => ground.proxy.cut(),
            Self::RequestsDropped => ground.proxy.hold_requests(),
            Self::RepliesDropped => ground.proxy.hold_replies(),
        }
    }

    pub fn heal(self, ground: &mut Ground, keys: &[String]) {
        match self {
            Self::KeyDeleted | Self::KeyOverwritten => Self::KeyDeleted.strike(ground, keys),
            Self::ServerFrozen => ground.server.resume(),
            Self::ServerKilled => ground.server.restart(),
            _ => ground.proxy.heal(),
        }
    }
}
