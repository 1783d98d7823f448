//! A PostgreSQL server for this run only, with its data on a disk.

use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Stopped when dropped, also on a panic.
pub struct PostgresServer {
    process: Child,
    directory: PathBuf,
    port: u16,
}

impl PostgresServer {
    pub fn start() -> PostgresServer {
        let name = format!("lock-bench-postgres-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory).unwrap();
        if let Some((user, group)) = user() {
            chown(&directory, Some(user), Some(group)).unwrap();
        }
        let data = directory.join("data");
        let mut made = command("initdb");
        made.arg("-D").arg(&data);
        made.args(["-U", "postgres", "--auth=trust", "--no-sync"]);
        assert!(made.stdout(Stdio::null()).status().unwrap().success());
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let process = command("postgres")
            .arg("-D")
            .arg(&data)
            .args(["-p", &port.to_string(), "-c", "listen_addresses=127.0.0.1"])
            .args(["-c", "unix_socket_directories="])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let server = PostgresServer {
            process,
            directory,
            port,
        };
        let start = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            let waited = start.elapsed();
            assert!(
                waited < Duration::from_secs(20),
                "PostgreSQL does not start"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        // It accepts connections a moment before it serves them.
        std::thread::sleep(Duration::from_millis(500));
        server
    }

    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        // An immediate shutdown, which ends all of its processes.
        let id = self.process.id().to_string();
        let _ = Command::new("kill").args(["-QUIT", &id]).status();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
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
