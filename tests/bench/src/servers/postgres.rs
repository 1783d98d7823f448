//! PostgreSQL.

use super::{Servers, free_ports};
use std::net::TcpStream;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Starts a server.
pub fn start(_: usize) -> Servers {
    // An immediate shutdown, which ends all of its processes.
    let mut servers = Servers::new("postgres", "-QUIT");
    if let Some((user, group)) = user() {
        chown(servers.directory(), Some(user), Some(group)).unwrap();
    }
    let data = servers.directory().join("data");
    let mut made = command("initdb");
    made.arg("-D").arg(&data);
    made.args(["-U", "postgres", "--auth=trust", "--no-sync"]);
    assert!(made.stdout(Stdio::null()).status().unwrap().success());
    let port = free_ports(1)[0];
    let mut server = command("postgres");
    server.arg("-D").arg(&data).args(["-p", &port.to_string()]);
    server.args(["-c", "listen_addresses=127.0.0.1"]);
    server.args(["-c", "unix_socket_directories="]);
    servers.spawn(&mut server);
    servers.until(|| TcpStream::connect(("127.0.0.1", port)).is_ok());
    // It accepts connections a moment before it serves them.
    std::thread::sleep(Duration::from_millis(500));
    servers.url = format!("postgres://postgres@127.0.0.1:{port}/postgres");
    servers
}

/// Returns a command that runs as a user who may: PostgreSQL refuses to run as root.
fn command(name: &str) -> Command {
    let mut versions: Vec<_> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .map(|version| version.path().join("bin").join(name))
        .collect();
    versions.sort();
    let program = versions.pop().unwrap_or_else(|| PathBuf::from(name));
    let mut command = Command::new(program);
    if let Some((user, group)) = user() {
        command.uid(user).gid(group);
    }
    command.current_dir(Path::new("/"));
    command
}

fn user() -> Option<(u32, u32)> {
    let id = |arguments: &[&str]| -> Option<u32> {
        let output = Command::new("id").args(arguments).output().ok()?;
        String::from_utf8(output.stdout).ok()?.trim().parse().ok()
    };
    let is_root = id(&["-u"]) == Some(0);
    is_root.then(|| {
        let of = |flag| id(&[flag, "postgres"]).expect("the user `postgres` exists");
        (of("-u"), of("-g"))
    })
}
