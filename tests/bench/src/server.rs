//! A redis-server for this run alone.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Killed when dropped, on a panic too.
pub struct Server {
    process: Child,
    directory: PathBuf,
    port: u16,
}

impl Server {
    pub fn start() -> Server {
        let directory = std::env::temp_dir().join(format!("lock-bench-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let process = Command::new("redis-server")
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
        while server.keys().is_err() {
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

    pub fn version(&self) -> redis::RedisResult<String> {
        let mut connection = redis::Client::open(self.url())?.get_connection()?;
        let info: redis::InfoDict = redis::cmd("INFO").arg("server").query(&mut connection)?;
        Ok(info.get("redis_version").unwrap_or_default())
    }

    /// How many keys there are: none, if all locks were released.
    pub fn keys(&self) -> redis::RedisResult<usize> {
        let mut connection = redis::Client::open(self.url())?.get_connection()?;
        redis::cmd("DBSIZE").query(&mut connection)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
