//! A connection as the server identifies it, and the connections that must be killed.

use crate::util::sync::{Mutex, MutexGuard};
use std::sync::atomic::{AtomicUsize, Ordering};

#[derive(Clone, PartialEq)]
pub(crate) struct ClientId {
    id: String,
    address: String,
}

/// The clients whose connections broke with requests under way, which the server may still execute. The
/// locks that they may acquire are released once the server has closed the connections.
#[derive(Default)]
pub(crate) struct BrokenClients {
    clients: Mutex<Vec<ClientId>>,
    /// How many they are, to be known without the mutex: mostly there are none.
    count: AtomicUsize,
}

impl ClientId {
    /// Parses the reply to `CLIENT INFO`.
    pub(crate) fn parse(description: &str) -> Option<ClientId> {
        let field = |name| {
            let mut fields = description.split_whitespace();
            fields
                .find_map(|field| field.strip_prefix(name))
                .map(str::to_owned)
        };
        Some(ClientId {
            id: field("id=")?,
            address: field("addr=")?,
        })
    }

    /// The command that makes the server close the connection and discard requests that it has not read.
    ///
    /// It names id and address, since a restarted server gives the same ids to other clients.
    pub(crate) fn kill(&self) -> [&str; 6] {
        ["CLIENT", "KILL", "ID", &self.id, "ADDR", &self.address]
    }
}

impl BrokenClients {
    pub(crate) fn add(&self, client: ClientId) {
        self.change(|clients| clients.push(client));
    }

    /// Returns one of them.
    pub(crate) fn first(&self) -> Option<ClientId> {
        // A caller whose connection has broken sees its client: that was added before the caller learned of
        // the end.
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.clients().first().cloned()
    }

    /// Records that the server has closed that connection.
    pub(crate) fn remove(&self, client: &ClientId) {
        self.change(|clients| clients.retain(|other| other != client));
    }

    fn change(&self, change: impl FnOnce(&mut Vec<ClientId>)) {
        let mut clients = self.clients();
        change(&mut clients);
        self.count.store(clients.len(), Ordering::Release);
    }

    fn clients(&self) -> MutexGuard<'_, Vec<ClientId>> {
        self.clients.lock()
    }
}
