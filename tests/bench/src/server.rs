//! A redis-server for this run only.

use crate::process;
use lock_test_support::server;
use redis::{Connection, InfoDict, cmd};
use std::ops::Sub;
use std::time::Duration;

/// Killed when dropped, also on a panic.
pub struct Server(server::Server);

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
    /// Starts a server, which runs on that core if there is one.
    pub fn start(core: Option<usize>) -> Server {
        let server = server::Server::start();
        if let Some(core) = core {
            process::keep_on(core, server.pid());
        }
        Server(server)
    }

    pub fn url(&self) -> String {
        self.0.url()
    }

    pub fn port(&self) -> u16 {
        self.0.port()
    }

    /// Returns the id of the process.
    pub fn id(&self) -> u32 {
        self.0.pid()
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

    /// Returns the time that all calls of a command took so far, within scripts too, without input and
    /// output.
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
        let connect = || redis::Client::open(self.url())?.get_connection();
        connect().expect("the server replies")
    }

    fn info(&self, section: &str) -> InfoDict {
        cmd("INFO")
            .arg(section)
            .query(&mut self.connect())
            .expect("the server replies")
    }
}

/// Whatever is left on it.
impl Drop for Server {
    fn drop(&mut self) {
        self.0.kill();
    }
}
