//! A redis-server for this run only.

use crate::process;
use redis::{Connection, InfoDict, RedisResult, cmd};
use std::net::TcpListener;
use std::ops::Sub;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// Killed when dropped, also on a panic.
pub struct Server {
    process: Child,
    directory: PathBuf,
    port: u16,
}

/// The work of the server so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// Commands carried out, including those within scripts.
    pub commands: u64,
    pub cpu: Duration,
}

impl Sub for Usage {
    type Output = Usage;

    fn sub(self, before: Usage) -> Usage {
        Usage {
            // Without the `INFO` that read `before`.
            commands: self.commands - before.commands - 1,
            cpu: self.cpu.saturating_sub(before.cpu),
        }
    }
}

impl Server {
    pub fn start(core: Option<usize>) -> Server {
        let name = format!("lock-bench-{}-{core:?}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory).unwrap();
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let process = process::command("redis-server", core)
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", "no", "--dir"])
            .arg(&directory)
            .stdout(Stdio::null())
            .spawn()
            .expect("`redis-server` is installed");
        let mut server = Server {
            process,
            directory,
            port,
        };
        let start = Instant::now();
        while server.try_connect().is_err() {
            let gone = server.process.try_wait().unwrap();
            assert!(
                gone.is_none() && start.elapsed() < Duration::from_secs(10),
                "no redis-server"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        server
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the id of the process.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    pub fn version(&self) -> String {
        self.info("server").get("redis_version").unwrap_or_default()
    }

    pub fn usage(&self) -> Usage {
        let info = self.info("everything");
        let commands = info
            .iter()
            .filter(|(name, _)| name.starts_with("cmdstat_"))
            .filter(|(name, _)| !name.contains("client|setinfo") && *name != "cmdstat_hello")
            .map(|(name, _)| {
                let counts: String = info.get(name).unwrap_or_default();
                let calls = counts.split([',', '=']).nth(1);
                calls.and_then(|calls| calls.parse().ok()).unwrap_or(0)
            })
            .sum();
        let seconds = |name| info.get::<f64>(name).unwrap_or_default();
        Usage {
            commands,
            cpu: Duration::from_secs_f64(seconds("used_cpu_user") + seconds("used_cpu_sys")),
        }
    }

    /// Returns the time that all calls of a command took so far, within scripts too, without input and output.
    pub fn time_of(&self, command: &str) -> Duration {
        let info = self.info("commandstats");
        let counts: String = info.get(&format!("cmdstat_{command}")).unwrap_or_default();
        let mut counts = counts.split(',');
        let micros = counts.find_map(|count| count.strip_prefix("usec="));
        let micros = micros.and_then(|micros| micros.parse().ok());
        Duration::from_micros(micros.unwrap_or(0))
    }

    /// Returns the number of bytes received so far, those of this request included.
    pub fn received(&self) -> u64 {
        let info = self.info("stats");
        info.get("total_net_input_bytes").unwrap_or_default()
    }

    /// Returns the number of keys: none, if all locks were released.
    pub fn keys(&self) -> u64 {
        cmd("DBSIZE").query(&mut self.connect()).unwrap()
    }

    /// Deletes the keys of tasks that were stopped.
    pub fn clear(&self) {
        cmd("FLUSHALL").exec(&mut self.connect()).unwrap();
    }

    pub fn connect(&self) -> Connection {
        self.try_connect().expect("the server replies")
    }

    fn try_connect(&self) -> RedisResult<Connection> {
        redis::Client::open(self.url())?.get_connection()
    }

    fn info(&self, section: &str) -> InfoDict {
        cmd("INFO")
            .arg(section)
            .query(&mut self.connect())
            .expect("the server replies")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
