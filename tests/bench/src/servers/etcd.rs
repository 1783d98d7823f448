//! etcd.

use super::{Servers, ask, free_ports};
use std::process::Command;

/// Starts a cluster of that many members.
pub fn start(members: usize) -> Servers {
    let mut servers = Servers::new("etcd", "-KILL");
    let clients = free_ports(2 * members);
    let (clients, peers) = clients.split_at(members);
    let url = |port: &u16| format!("http://127.0.0.1:{port}");
    let cluster = peers.iter().enumerate();
    let cluster: Vec<_> = cluster
        .map(|(number, port)| format!("m{number}={}", url(port)))
        .collect();
    for (number, (client, peer)) in clients.iter().zip(peers).enumerate() {
        let mut command = Command::new("etcd");
        command.args(["--name", &format!("m{number}"), "--log-level", "error"]);
        command
            .arg("--data-dir")
            .arg(servers.directory().join(number.to_string()));
        command.args(["--listen-client-urls", &url(client)]);
        command.args(["--advertise-client-urls", &url(client)]);
        command.args(["--listen-peer-urls", &url(peer)]);
        command.args(["--initial-advertise-peer-urls", &url(peer)]);
        command.args(["--initial-cluster", &cluster.join(",")]);
        servers.spawn(&mut command);
    }
    let is_healthy = |port: &u16| ask(*port, "GET /health HTTP/1.0\r\n\r\n").contains(r#""true""#);
    servers.until(|| clients.iter().all(is_healthy));
    servers.url = format!("etcd://127.0.0.1:{}", clients[0]);
    servers
}
