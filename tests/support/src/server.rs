//! A redis-server for a single test, on a free port, with nothing on disk.

use std::collections::hash_map::RandomState;
use std::fs::{self, DirEntry};
use std::hash::BuildHasher;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use redis::FromRedisValue;
use tempfile::TempDir;

use crate::certificates::Certificates;
use crate::clocks::{Clock, Clocks};
use crate::proxy::Proxy;
use crate::rng::Rng;
use crate::time::{comes_true, eventually};

/// Killed when dropped, after a check that the test left no keys but counters.
pub struct Server {
    process: Option<Child>,
    directory: TempDir,
    port: u16,
    password: Option<String>,
    /// The configuration file of a Sentinel, in which it stores its state.
    file: Option<PathBuf>,
    options: Vec<String>,
    clocks: Option<Clocks>,
    network: Option<Proxy>,
    paused: bool,
}

impl Server {
    pub fn start() -> Self {
        Self::with(None, |_, _| Vec::new())
    }

    pub fn with_password(password: &str) -> Self {
        Self::with(Some(password), |_, _| Vec::new())
    }

    /// Starts a server that accepts only TLS on its port.
    pub fn with_tls(certificates: &Certificates) -> Self {
        Self::with(None, |directory, port| {
            tls_options(certificates, directory, port)
        })
    }

    /// Starts a server with options that may depend on its directory and port.
    pub fn with(password: Option<&str>, options: impl FnOnce(&Path, u16) -> Vec<String>) -> Self {
        let mut server = Self::prepare(password, free_port(), options);
        server.restart();
        server
    }

    /// Starts a server behind a proxy: connections to its port go through the proxy.
    pub fn with_network(options: impl FnOnce(&Path, u16) -> Vec<String>) -> Self {
        let behind = free_port();
        let (port, network) = loop {
            let port = free_port();
            // Another program may have taken the port in the meantime.
            if let Ok(network) = Proxy::at(port, behind) {
                break (port, network);
            }
        };
        let mut server = Self::prepare(None, port, |directory, port| {
            let mut options = options(directory, port);
            options.extend(["--port".to_owned(), behind.to_string()]);
            options
        });
        server.network = Some(network);
        server.restart();
        server
    }

    /// Starts a server whose wall clock is ahead by `clock`. Linux only.
    pub fn ahead(clock: Duration, options: &[&str]) -> Self {
        let clocks = Clocks::correct();
        clocks.forward(&[Clock::Wall], clock);
        Self::by(clocks, options)
    }

    /// Starts a server whose wall clock runs at a thousandth of its speed: no lease ends while a test looks
    /// at it. Linux only.
    pub fn slow() -> Self {
        let clocks = Clocks::correct();
        clocks.gain(&[Clock::Wall], -999_000);
        Self::by(clocks, &[])
    }

    /// Starts a server that uses `clocks`.
    pub fn by(clocks: Clocks, options: &[&str]) -> Self {
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        let mut server = Self::prepare(None, free_port(), |_, _| options);
        server.clocks = Some(clocks);
        server.restart();
        server
    }

    /// Starts a Sentinel.
    pub fn sentinel(
        password: Option<&str>,
        settings: &str,
        options: impl FnOnce(&Path, u16) -> Vec<String>,
    ) -> Self {
        let mut server = Self::prepare(password, free_port(), options);
        let file = server.directory.path().join("sentinel.conf");
        std::fs::write(&file, settings).unwrap();
        server.file = Some(file);
        server.restart();
        server
    }

    fn prepare(
        password: Option<&str>,
        port: u16,
        options: impl FnOnce(&Path, u16) -> Vec<String>,
    ) -> Self {
        let directory = temporary("lock-");
        let mut options = options(directory.path(), port);
        if let Some(password) = password {
            options.extend(["--requirepass".to_owned(), password.to_owned()]);
        }
        Self {
            process: None,
            directory,
            port,
            password: password.map(str::to_owned),
            file: None,
            options,
            clocks: None,
            network: None,
            paused: false,
        }
    }

    fn give_back_ports(&mut self) {
        let named = self.options.windows(2);
        let named = named.filter(|option| option[0].ends_with("port"));
        let mut ports: Vec<u16> = named.filter_map(|port| port[1].parse().ok()).collect();
        ports.push(self.port);
        ports.into_iter().for_each(give_back_port);
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("redis.sock")
    }

    /// Returns the proxy in front of the server, if it was started with one.
    pub fn network(&self) -> Option<&Proxy> {
        self.network.as_ref()
    }

    /// Returns the clocks that the server was started with.
    pub fn clocks(&self) -> Option<&Clocks> {
        self.clocks.as_ref()
    }

    pub fn pid(&self) -> u32 {
        self.process.as_ref().expect("the server runs").id()
    }

    /// Returns `true` if the server has been neither killed nor paused.
    pub fn runs(&self) -> bool {
        self.process.is_some() && !self.paused
    }

    /// Freezes the server: it keeps its connections and replies to nothing.
    pub fn pause(&mut self) {
        stop(self.pid());
        self.paused = true;
    }

    pub fn resume(&mut self) {
        signal(self.pid(), "CONT");
        self.paused = false;
    }

    /// Kills the server at once, as a crash does.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
        self.paused = false;
    }

    /// Kills the server and deletes its data on disk.
    pub fn forget(&mut self) {
        self.kill();
        let _ = std::fs::remove_dir_all(self.directory.path().join("appendonlydir"));
    }

    /// Restarts the server on its port, with only the data that its options made it write to disk.
    pub fn restart(&mut self) {
        self.kill();
        for _ in 0..20 {
            let mut process = self.command().spawn().expect("`redis-server` is installed");
            let mut gone = false;
            let answers = comes_true(|| {
                gone = process.try_wait().unwrap().is_some();
                gone || self.connect().is_ok()
            });
            if answers && !gone {
                self.process = Some(process);
                return;
            }
            process.kill().unwrap();
            process.wait().unwrap();
        }
        let log = std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default();
        panic!("redis-server does not start on port {}:\n{log}", self.port);
    }

    fn command(&self) -> Command {
        let mut command = Command::new("redis-server");
        if let Some(file) = &self.file {
            command.arg(file).arg("--sentinel");
        }
        command
            .args(["--port", &self.port.to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", "no", "--loglevel", "warning"])
            .arg("--dir")
            .arg(self.directory.path())
            .arg("--logfile")
            .arg(self.directory.path().join("log"))
            .arg("--unixsocket")
            .arg(self.socket())
            .args(&self.options)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        if let Some(clocks) = &self.clocks {
            clocks.preload(&mut command);
        }
        command
    }

    fn connect(&self) -> redis::RedisResult<redis::Connection> {
        let password = self
            .password
            .as_ref()
            .map(|p| format!("?pass={p}"))
            .unwrap_or_default();
        let url = format!("redis+unix://{}{password}", self.socket().display());
        let limit = Duration::from_secs(5);
        let mut connection = redis::Client::open(url)?.get_connection_with_timeout(limit)?;
        connection.set_read_timeout(Some(limit))?;
        redis::cmd("PING").exec(&mut connection)?;
        Ok(connection)
    }

    /// Sends one command over the unix socket, independently of the test's connections.
    #[track_caller]
    pub fn query<T: FromRedisValue>(&self, command: &str) -> T {
        self.try_query(command)
            .unwrap_or_else(|error| panic!("`{command}`: {error}"))
    }

    pub fn try_query<T: FromRedisValue>(&self, command: &str) -> redis::RedisResult<T> {
        let words: Vec<&str> = command.split_whitespace().collect();
        self.ask(&words)
    }

    /// Sends one command, given word by word.
    pub fn ask<T: FromRedisValue>(&self, words: &[&str]) -> redis::RedisResult<T> {
        let mut query = redis::cmd(words[0]);
        query.arg(&words[1..]).query(&mut self.connect()?)
    }

    /// Returns one field of the reply to an information command.
    pub fn info(&self, question: &str, name: &str) -> Option<String> {
        let words: Vec<&str> = question.split(' ').collect();
        let answer: String = self.ask(&words).ok()?;
        field(&answer, name).map(str::to_owned)
    }

    /// Waits until `replicas` replicas have all data written so far. Returns `true` if that happened in time.
    pub fn until_replicated(&self, replicas: usize) -> bool {
        let information = || self.query::<String>("INFO replication");
        let number = |text: &str| text.parse::<u64>().unwrap_or_default();
        let written = information();
        let written = number(field(&written, "master_repl_offset").unwrap_or_default());
        comes_true(|| {
            let has_reached = |line: &&str| {
                let mut fields = line.split([':', ',']);
                let offset = fields.find_map(|field| field.strip_prefix("offset="));
                line.starts_with("slave") && offset.is_some_and(|offset| number(offset) >= written)
            };
            information().lines().filter(has_reached).count() >= replicas
        })
    }

    /// Returns the number of keys, without those of what processes report of themselves.
    pub fn key_count(&self) -> usize {
        let count = "return redis.call('DBSIZE') - redis.call('EXISTS', unpack(KEYS))";
        let reports = ["lock:::reports", "lock:::processes"];
        self.ask(&["EVAL", count, "2", reports[0], reports[1]])
            .expect("a number")
    }

    pub fn exists(&self, key: &str) -> bool {
        self.query(&format!("EXISTS {key}"))
    }

    #[track_caller]
    pub fn until_gone(&self, key: &str) {
        eventually(&format!("`{key}` is gone"), || !self.exists(key));
    }

    /// Waits until the channel has no subscriber.
    pub fn until_deaf(&self, channel: &str) {
        let deaf = || {
            let (_, heard): (String, usize) = self.query(&format!("PUBSUB NUMSUB {channel}"));
            heard == 0
        };
        eventually(&format!("`{channel}` has no subscriber"), deaf);
    }

    /// Returns the number of processes in the server queue of a lock.
    pub fn waiting(&self, key: &str) -> usize {
        self.query(&format!("ZCARD lock:::queue:{key}"))
    }

    /// Waits until `processes` processes are in the server queue of a lock.
    #[track_caller]
    pub fn until_waiting(&self, key: &str, processes: usize) {
        let what = format!("{processes} wait for `{key}`");
        eventually(&what, || self.waiting(key) == processes);
    }

    /// Returns how often clients and scripts ran these commands.
    pub fn calls(&self, commands: &[&str]) -> u64 {
        let statistics: String = self.query("INFO commandstats");
        let calls = |line: &str| {
            let (command, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
            let (calls, _) = rest.split_once(',')?;
            commands
                .contains(&command)
                .then(|| calls.parse::<u64>().unwrap())
        };
        statistics.lines().filter_map(calls).sum()
    }

    /// Returns the number of TCP connections that send commands: the library's, not the test's own, and not
    /// those that only subscribe.
    pub fn connections(&self) -> usize {
        let clients: String = self.query("CLIENT LIST");
        clients
            .lines()
            .filter(|line| line.contains(" addr=127.0.0.1:") && line.contains(" sub=0 "))
            .count()
    }

    /// Returns the clients that are connected over TCP, except for other servers and Sentinels.
    pub fn clients(&self) -> Vec<String> {
        let clients: String = self.query("CLIENT LIST");
        let is_client = |line: &&str| {
            let kind = [" flags=N ", " flags=P "];
            let servers = [" name=sentinel-", " cmd=restore"];
            line.contains(" addr=127.0.0.1:")
                && kind.iter().any(|flag| line.contains(flag))
                && !servers.iter().any(|name| line.contains(name))
        };
        let clients = clients.lines().filter(is_client);
        clients.map(str::to_owned).collect()
    }

    pub fn monitor(&self) -> Monitor {
        let mut stream = UnixStream::connect(self.socket()).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        stream.write_all(b"MONITOR\r\n").unwrap();
        let mut lines = BufReader::new(stream);
        lines.read_line(&mut String::new()).unwrap();
        Monitor { lines }
    }

    /// Returns all keys of all databases, except for counters of fencing tokens, for tombstones, which are
    /// kept for a moment because a request of the claim may still arrive, and for what processes report of
    /// themselves.
    pub fn leftovers(&self) -> Vec<String> {
        let keyspace: String = self.query("INFO keyspace");
        let mut connection = self.connect().unwrap();
        let mut left = Vec::new();
        for database in keyspace
            .lines()
            .filter_map(|l| l.strip_prefix("db")?.split(':').next())
        {
            redis::cmd("SELECT")
                .arg(database)
                .exec(&mut connection)
                .unwrap();
            let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut connection).unwrap();
            let kept = ["::fence", "::gone:", "::reports", "::processes"];
            let is_kept = |key: &String| kept.iter().any(|kind| key.contains(kind));
            left.extend(keys.into_iter().filter(|key| !is_kept(key)));
        }
        left
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.runs() && self.file.is_none() && !std::thread::panicking() {
            let mut left = Vec::new();
            let look = AssertUnwindSafe(|| {
                comes_true(|| {
                    left = self.leftovers();
                    left.is_empty()
                })
            });
            // The server may refuse to be asked.
            let clean = catch_unwind(look);
            self.kill();
            self.give_back_ports();
            assert!(
                clean.is_ok_and(|clean| clean),
                "the test left keys behind: {left:?}"
            );
        }
        self.kill();
        self.give_back_ports();
    }
}

/// The output of `MONITOR`.
pub struct Monitor {
    lines: BufReader<UnixStream>,
}

impl Monitor {
    /// Returns the commands that clients sent over TCP until now, without those that scripts ran.
    pub fn commands(mut self, server: &Server) -> Vec<String> {
        let end = "the-end-of-the-monitor";
        server.query::<()>(&format!("ECHO {end}"));
        let mut commands = Vec::new();
        loop {
            let mut line = String::new();
            self.lines
                .read_line(&mut line)
                .expect("the monitor shows every command");
            if line.contains(end) {
                return commands;
            }
            let (from, command) = line.split_once("] ").unwrap_or_default();
            if from.contains("127.0.0.1:") {
                commands.push(command.trim_end().to_owned());
            }
        }
    }
}

/// Returns one field of an information reply.
pub fn field<'a>(information: &'a str, name: &str) -> Option<&'a str> {
    let mut fields = information.lines();
    fields.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
}

/// Returns the options that make a server use only TLS, also with its replicas and Sentinels.
pub fn tls_options(certificates: &Certificates, directory: &Path, port: u16) -> Vec<String> {
    let file = |name: &str, pem: &str| {
        let path = directory.join(name);
        std::fs::write(&path, pem).unwrap();
        path.display().to_string()
    };
    let demands = if certificates.are_demanded {
        "yes"
    } else {
        "no"
    };
    let port = port.to_string();
    let certificate = file("certificate.pem", &certificates.certificate);
    let key = file("key.pem", &certificates.key);
    let authority = file("authority.pem", &certificates.authority);
    [
        ["--port", "0"],
        ["--tls-port", &port],
        ["--tls-replication", "yes"],
        ["--tls-cert-file", &certificate],
        ["--tls-key-file", &key],
        ["--tls-ca-cert-file", &authority],
        ["--tls-auth-clients", demands],
    ]
    .concat()
    .into_iter()
    .map(str::to_owned)
    .collect()
}

/// The ports in use: neither another process nor this one takes a port for a server while its socket is here.
static TAKEN: Mutex<Vec<UdpSocket>> = Mutex::new(Vec::new());

/// Returns a free port outside the range of client ports, so that a restarted server finds its port free
/// again. The port 10,000 above, which a cluster node uses for the cluster bus, is free, too.
pub fn free_port() -> u16 {
    let mut rng = Rng::with(RandomState::new().hash_one("port"));
    let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    loop {
        let port = 10_000 + rng.below(10_000) as u16;
        if let Ok(taken) = UdpSocket::bind(("127.0.0.1", port))
            && is_free(port)
            && is_free(port + 10_000)
        {
            TAKEN.lock().unwrap().push(taken);
            return port;
        }
    }
}

/// Lets others take a port that [`free_port`] returned.
pub fn give_back_port(port: u16) {
    let is_it = |taken: &UdpSocket| {
        taken
            .local_addr()
            .is_ok_and(|address| address.port() == port)
    };
    TAKEN.lock().unwrap().retain(|taken| !is_it(taken));
}

/// Creates a directory for a test: in memory if possible, since a disk is slow for all tests that share it.
pub fn temporary(prefix: &str) -> TempDir {
    let mut directory = tempfile::Builder::new();
    directory.prefix(prefix);
    let in_memory = directory.tempdir_in("/dev/shm");
    in_memory.or_else(|_| directory.tempdir()).unwrap()
}

/// Creates a directory on a disk, for servers that are measured.
pub fn on_disk(prefix: &str) -> TempDir {
    let mut directory = tempfile::Builder::new();
    directory.prefix(prefix).tempdir().unwrap()
}

/// Stops a process, and waits until none of its threads runs: on a busy machine threads may run for long
/// after the signal was sent.
pub fn stop(pid: u32) {
    signal(pid, "STOP");
    let is_stopped = |thread: DirEntry| {
        let stat = fs::read_to_string(thread.path().join("stat"));
        // The state follows the name, which is in parentheses. A thread without the file has ended.
        stat.map_or(true, |stat| {
            let state = stat
                .rsplit(") ")
                .next()
                .and_then(|rest| rest.chars().next());
            state.is_some_and(|state| "TtZX".contains(state))
        })
    };
    eventually("the process stops", || {
        let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
            return true;
        };
        threads.flatten().all(is_stopped)
    });
}

pub fn signal(pid: u32, signal: &str) {
    let sent = Command::new("kill")
        .arg(format!("-{signal}"))
        .arg(pid.to_string())
        .status();
    assert!(sent.unwrap().success(), "signal {signal} to {pid}");
}
