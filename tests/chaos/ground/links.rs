//! The network between workers and servers.

use crate::support::proxy::Proxy;
use crate::support::server::Server;

/// A proxy for each worker process and each server, so that a single connection can fail.
pub struct Mesh {
    seats: Vec<Vec<Proxy>>,
}

impl Mesh {
    pub fn to(servers: &[Server], seats: usize) -> Self {
        let links = || servers.iter().map(|server| Proxy::reading(server.port()));
        Self {
            seats: (0..seats).map(|_| links().collect()).collect(),
        }
    }

    pub fn urls(&self, seat: usize) -> String {
        let urls: Vec<_> = self.seats[seat].iter().map(Proxy::url).collect();
        urls.join(" ")
    }

    pub fn proxy(&self, seat: usize, server: usize) -> &Proxy {
        &self.seats[seat][server]
    }
}
