//! Servers of engines other than Redis, for this run only, with their data on a disk.

#[cfg(feature = "etcd")]
pub mod etcd;
pub mod postgres;
pub mod zookeeper;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The members of a cluster, or a single server. Stopped when dropped, also on a panic.
pub struct Servers {
    /// The URL of the first member: all contenders connect to the same one.
    pub url: String,
    members: Vec<Child>,
    directory: PathBuf,
    /// The signal that ends a member with all of its processes.
    signal: &'static str,
}

impl Servers {
    /// Makes a directory for servers that follow.
    fn new(name: &str, signal: &'static str) -> Servers {
        let name = format!("lock-bench-{name}-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory).unwrap();
        Servers {
            url: String::new(),
            members: Vec::new(),
            directory,
            signal,
        }
    }

    fn directory(&self) -> &Path {
        &self.directory
    }

    fn spawn(&mut self, command: &mut Command) {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let name = command.get_program().to_owned();
        let member = command.spawn();
        let member =
            member.unwrap_or_else(|error| panic!("{} does not start: {error}", name.display()));
        self.members.push(member);
    }

    /// Waits until all members are ready.
    fn until(&mut self, is_ready: impl Fn() -> bool) {
        let start = Instant::now();
        while !is_ready() {
            let ended = |member: &mut Child| member.try_wait().unwrap().is_some();
            assert!(!self.members.iter_mut().any(ended), "a server has ended");
            let waited = start.elapsed();
            assert!(waited < Duration::from_secs(60), "no server");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for member in &mut self.members {
            let id = member.id().to_string();
            let _ = Command::new("kill").args([self.signal, &id]).status();
            let _ = member.wait();
        }
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Returns that number of ports that were free a moment ago.
fn free_ports(count: usize) -> Vec<u16> {
    let listeners: Vec<_> = (0..count)
        .map(|_| TcpListener::bind("127.0.0.1:0").unwrap())
        .collect();
    let port = |listener: &TcpListener| listener.local_addr().unwrap().port();
    listeners.iter().map(port).collect()
}

/// Returns what a server answers to these words before it closes the connection, or nothing.
fn ask(port: u16, words: &str) -> String {
    let ask = || {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
        stream.write_all(words.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    };
    ask().unwrap_or_default()
}
