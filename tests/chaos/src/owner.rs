//! Which process has a connection: another program of the machine may have taken a server's port for its own.

use std::fs;
use std::path::Path;

/// The process whose end of a connection has that local port, on Linux; empty if it can't be found.
pub fn owner(port: u16) -> String {
    let socket = inode(port).map(|inode| format!("socket:[{inode}]"));
    let owner = socket.and_then(|socket| {
        let processes = fs::read_dir("/proc").ok()?.flatten();
        processes
            .filter(|process| process.file_name().to_string_lossy().parse::<u32>().is_ok())
            .map(|process| process.path())
            .find(|process| has_open(process, &socket))
    });
    owner.map_or_else(String::new, |process| {
        let command = fs::read_to_string(process.join("cmdline")).unwrap_or_default();
        format!("{}: {}", process.display(), command.replace('\0', " "))
    })
}

/// The socket with that local port which has a peer.
fn inode(port: u16) -> Option<String> {
    const ESTABLISHED: &str = "01";
    let table = fs::read_to_string("/proc/net/tcp").ok()?;
    let mut rows = table.lines().map(|line| line.split_whitespace());
    let local = format!(":{port:04X}");
    rows.find_map(|row| {
        let fields: Vec<&str> = row.collect();
        let is_it = fields.get(1)?.ends_with(&local) && *fields.get(3)? == ESTABLISHED;
        is_it.then(|| fields.get(9).copied().unwrap_or_default().to_owned())
    })
}

fn has_open(process: &Path, socket: &str) -> bool {
    let open = fs::read_dir(process.join("fd")).into_iter().flatten();
    let mut targets = open.flatten().map(|file| fs::read_link(file.path()));
    targets.any(|target| target.is_ok_and(|target| target == Path::new(socket)))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn the_owner_of_a_connection_is_named() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let named = owner(stream.local_addr().unwrap().port());
        assert!(
            named.starts_with(&format!("/proc/{}: ", std::process::id())),
            "{named}"
        );
        assert_eq!(owner(1), "");
    }
}
