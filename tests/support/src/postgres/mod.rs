//! A PostgreSQL server for a single test, on a free port, with its data in a temporary directory.

pub(crate) mod files;
mod locks;
mod standby;

use std::fmt::Debug;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::time::Duration;

use tempfile::TempDir;
use tokio_postgres::{NoTls, SimpleQueryMessage};

use crate::certificates::Certificates;
use crate::clocks::Clocks;
use crate::proxy::Proxy;
use crate::server::{free_port, give_back_port, on_disk, signal, stop, temporary};
use crate::time::{comes_true, eventually};
use files::{ProgramUser, copy_template, initdb, own};

/// Killed when dropped, with all of its processes, after a check that the test left no locks.
pub struct Postgres {
    process: Option<Child>,
    directory: TempDir,
    port: u16,
    settings: Vec<(String, String)>,
    clocks: Option<Clocks>,
    network: Option<Proxy>,
    /// The port behind the proxy, if there is one.
    behind: Option<u16>,
    paused: bool,
    checked: bool,
    /// `true` if it has the settings of an installed server.
    as_installed: bool,
}

impl Postgres {
    pub fn start() -> Self {
        Self::with(&[])
    }

    /// Starts a server to be measured: on a disk, and with the settings of an installed one.
    pub fn as_installed() -> Self {
        let mut server = Self::prepare_in(on_disk("lock-pg-"), &[]);
        server.as_installed = true;
        initdb(&server.data(), &[]);
        server.restart();
        server
    }

    /// Starts a server with settings like those of `postgresql.conf`.
    pub fn with(settings: &[(&str, &str)]) -> Self {
        let mut server = Self::prepare(settings);
        copy_template(&server.data());
        server.restart();
        server
    }

    /// Starts a server that uses `clocks`.
    pub fn by(clocks: Clocks, settings: &[(&str, &str)]) -> Self {
        let mut server = Self::prepare(settings);
        server.clocks = Some(clocks);
        copy_template(&server.data());
        server.restart();
        server
    }

    /// Starts a server behind a proxy: connections to its port go through the proxy.
    pub fn with_network(settings: &[(&str, &str)]) -> Self {
        let mut server = Self::prepare(settings);
        let behind = server.port;
        let (port, network) = loop {
            let port = free_port();
            // Another program may have taken the port in the meantime.
            match Proxy::carrying(port, behind) {
                Ok(network) => break (port, network),
                Err(_) => give_back_port(port),
            }
        };
        server.port = port;
        server.behind = Some(behind);
        server.network = Some(network);
        copy_template(&server.data());
        server.restart();
        server
    }

    /// Starts a server that accepts TLS.
    pub fn with_tls(certificates: &Certificates) -> Self {
        let mut server = Self::prepare(&[]);
        for (setting, pem) in [
            ("ssl_cert_file", &certificates.certificate),
            ("ssl_key_file", &certificates.key),
            ("ssl_ca_file", &certificates.authority),
        ] {
            let path = server.directory.path().join(setting);
            std::fs::write(&path, pem).unwrap();
            // The server uses no key that others may read.
            std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
            own(&path);
            server.set(setting, path.to_str().unwrap());
        }
        server.set("ssl", "on");
        copy_template(&server.data());
        if certificates.are_demanded {
            server.admit("hostssl all all all trust clientcert=verify-full");
        }
        server.restart();
        server
    }

    fn prepare(settings: &[(&str, &str)]) -> Self {
        Self::prepare_in(temporary("lock-pg-"), settings)
    }

    fn prepare_in(directory: TempDir, settings: &[(&str, &str)]) -> Self {
        own(directory.path());
        let settings = settings.iter();
        Self {
            process: None,
            directory,
            port: free_port(),
            settings: settings
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            clocks: None,
            network: None,
            behind: None,
            paused: false,
            checked: true,
            as_installed: false,
        }
    }

    /// Sets what the server is started with the next time.
    pub fn set(&mut self, name: &str, value: &str) {
        self.settings.retain(|(other, _)| other != name);
        self.settings.push((name.to_owned(), value.to_owned()));
    }

    /// Sets what takes effect without a restart.
    pub fn alter(&self, name: &str, value: &str) {
        // The command line would take precedence.
        assert!(self.settings.iter().all(|(other, _)| other != name));
        self.execute(&format!("ALTER SYSTEM SET {name} = '{value}'"));
        self.execute("SELECT pg_reload_conf()");
        let is_set = format!("SELECT current_setting('{name}') = '{value}'");
        eventually("the server reads its settings", || {
            self.query::<String>(&is_set) == "t"
        });
    }

    /// Requires a password of every client that does not use the unix socket.
    pub fn require_password(&self) {
        self.require("scram-sha-256");
    }

    /// Requires that every client that does not use the unix socket logs in by that method.
    pub fn require(&self, method: &str) {
        self.admit(&format!("host all all all {method}"));
        self.execute("SELECT pg_reload_conf()");
        let rules =
            format!("SELECT count(*) FROM pg_hba_file_rules WHERE auth_method = '{method}'");
        eventually("the server reads its rules", || {
            self.query::<usize>(&rules) == 1
        });
    }

    /// Sets the rule for clients that do not use the unix socket, from the next start on.
    pub fn admit(&self, rule: &str) {
        let rules = format!("local all all trust\n{rule}\n");
        std::fs::write(self.data().join("pg_hba.conf"), rules).unwrap();
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the port of the server itself, also if a proxy is in front of it.
    pub fn server_port(&self) -> u16 {
        self.behind.unwrap_or(self.port)
    }

    pub fn url(&self) -> String {
        url_at(self.port)
    }

    /// Returns the URL for another user, who may have a password.
    pub fn url_for(&self, user: &str) -> String {
        format!("postgres://{user}@127.0.0.1:{}/postgres", self.port)
    }

    /// Returns the directory of the server's unix socket.
    pub fn socket_directory(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the proxy in front of the server, if it was started with one.
    pub fn network(&self) -> Option<&Proxy> {
        self.network.as_ref()
    }

    /// Returns the clocks that the server was started with.
    pub fn clocks(&self) -> Option<&Clocks> {
        self.clocks.as_ref()
    }

    fn pid(&self) -> u32 {
        self.process.as_ref().expect("the server runs").id()
    }

    /// Returns `true` if the server has been neither killed nor paused.
    pub fn runs(&self) -> bool {
        self.process.is_some() && !self.paused
    }

    /// Freezes the server: it keeps its connections and replies to nothing.
    pub fn pause(&mut self) {
        let pid = self.pid();
        // After the first, none is started any more.
        stop(pid);
        for child in children(pid) {
            try_signal(child, "STOP");
        }
        self.paused = true;
    }

    pub fn resume(&mut self) {
        let pid = self.pid();
        for child in children(pid) {
            try_signal(child, "CONT");
        }
        signal(pid, "CONT");
        self.paused = false;
    }

    /// Kills all processes of the server at once, as a crash of the machine does.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let pid = process.id();
            // A server that has ended by itself has no processes left.
            if process.try_wait().unwrap().is_none() {
                stop(pid);
                for child in children(pid) {
                    try_signal(child, "KILL");
                }
                process.kill().unwrap();
            }
            process.wait().unwrap();
        }
        self.paused = false;
    }

    /// Removes the shared memory segment that a killed server leaves, of which a machine has a limited
    /// number.
    fn remove_segment(&self) {
        let file = std::fs::read_to_string(self.data().join("postmaster.pid")).unwrap_or_default();
        let words = file.lines().nth(6).unwrap_or_default();
        if let Some(id) = words.split_whitespace().nth(1) {
            let _ = Command::new("ipcrm").args(["-m", id]).output();
        }
    }

    /// Shuts the server down in order: it ends all connections.
    pub fn stop(&mut self) {
        signal(self.pid(), "INT");
        let process = self.process.as_mut().unwrap();
        let mut ended = false;
        comes_true(|| {
            ended = process.try_wait().unwrap().is_some();
            ended
        });
        self.kill();
        assert!(ended, "the server shuts down");
    }

    /// Restarts the server on its port, with all data that it has flushed.
    pub fn restart(&mut self) {
        self.kill();
        for _ in 0..20 {
            let mut process = self.command().spawn().unwrap();
            let mut gone = false;
            let answers = comes_true(|| {
                gone = process.try_wait().unwrap().is_some();
                gone || self.try_execute("SELECT 1").is_ok()
            });
            self.process = Some(process);
            if answers && !gone {
                return;
            }
            // A killed server's last process may still use its shared memory.
            self.kill();
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!(
            "the server does not start on port {}:\n{}",
            self.port,
            self.log()
        );
    }

    /// Returns what the server has logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    fn command(&self) -> Command {
        let log = self.directory.path().join("log");
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(log)
            .unwrap();
        let mut command = ProgramUser::command("postgres");
        command.arg("-D").arg(self.data());
        let directory = self.directory.path().display().to_string();
        let port = self.server_port().to_string();
        let ours = [
            ("port", port.as_str()),
            ("listen_addresses", "127.0.0.1"),
            ("unix_socket_directories", &directory),
        ];
        let small = [
            ("shared_buffers", "16MB"),
            // Otherwise a killed server leaves files in `/dev/shm`.
            ("dynamic_shared_memory_type", "mmap"),
            ("max_connections", "60"),
            ("log_line_prefix", "%m [%p] %u "),
        ];
        let theirs = self
            .settings
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        let small = small.into_iter().filter(|_| !self.as_installed);
        for (name, value) in ours.into_iter().chain(small).chain(theirs) {
            command.arg("-c").arg(format!("{name}={value}"));
        }
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        if let Some(clocks) = &self.clocks {
            clocks.preload(&mut command);
        }
        command
    }

    /// Executes statements over the unix socket, independently of the test's connections.
    #[track_caller]
    pub fn execute(&self, statements: &str) {
        self.try_execute(statements)
            .unwrap_or_else(|error| panic!("`{statements}`: {error}"));
    }

    /// Returns the rows of all statements, or why the server does not answer.
    pub fn try_execute(&self, statements: &str) -> Result<Vec<Vec<String>>, String> {
        let mut config = tokio_postgres::Config::new();
        config
            .host_path(self.directory.path())
            .port(self.server_port());
        config.user("postgres").dbname("postgres");
        let execute = async {
            let (client, connection) = config.connect(NoTls).await?;
            tokio::select! {
                rows = client.simple_query(statements) => Ok(texts(&rows?)),
                closed = connection => Err(closed.expect_err("the client is not dropped")),
            }
        };
        let execute = async {
            let answer = tokio::time::timeout(Duration::from_secs(15), execute).await;
            answer
                .map_err(|_| "no answer".to_owned())?
                .map_err(|error| format!("{error:?}"))
        };
        // The caller may be a task of a runtime, which must not block on another one.
        std::thread::scope(|scope| {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = runtime.enable_all().build().unwrap();
            scope
                .spawn(move || runtime.block_on(execute))
                .join()
                .unwrap()
        })
    }

    /// Returns the rows of a query, with each value as text; NULL is empty.
    #[track_caller]
    pub fn rows(&self, query: &str) -> Vec<Vec<String>> {
        self.try_execute(query)
            .unwrap_or_else(|error| panic!("`{query}`: {error}"))
    }

    /// Returns the first value of the first row.
    #[track_caller]
    pub fn query<T: FromStr<Err: Debug>>(&self, query: &str) -> T {
        let rows = self.rows(query);
        let value = rows.first().and_then(|row| row.first());
        let value = value.unwrap_or_else(|| panic!("`{query}` returns no row"));
        value
            .parse()
            .unwrap_or_else(|error| panic!("`{query}`: `{value}`: {error:?}"))
    }

    /// Returns the number of connections of clients, except for the test's own over the unix socket.
    pub fn connections(&self) -> usize {
        let clients = "SELECT count(*) FROM pg_stat_activity
            WHERE backend_type = 'client backend' AND client_addr IS NOT NULL";
        self.query(clients)
    }

    /// Returns the connections of clients, except for the test's own, each with ` addr=127.0.0.1:` and its
    /// port.
    pub fn clients(&self) -> Vec<String> {
        let clients = "SELECT concat('pid=', pid, ' addr=127.0.0.1:', client_port, ' ', query)
            FROM pg_stat_activity WHERE backend_type = 'client backend' AND client_addr IS NOT NULL";
        self.rows(clients).concat()
    }

    /// Ends all connections of clients, except for the test's own. Returns how many.
    pub fn terminate_connections(&self) -> usize {
        let terminate = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
            WHERE backend_type = 'client backend' AND client_addr IS NOT NULL";
        self.query(terminate)
    }

    /// Does not check for leftovers: the test leaves locks on purpose.
    pub fn leave_locks(&mut self) {
        self.checked = false;
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let mut left = Vec::new();
        let mut clean = true;
        if self.checked && self.runs() && !std::thread::panicking() {
            clean = comes_true(|| {
                left = self.leftovers();
                left.is_empty()
            });
        }
        self.kill();
        self.remove_segment();
        give_back_port(self.port);
        give_back_port(self.server_port());
        assert!(clean, "the test left locks behind: {left:?}");
    }
}

/// Returns the URL of the server, pooler or proxy at a port of this machine.
pub fn url_at(port: u16) -> String {
    format!("postgres://postgres@127.0.0.1:{port}/postgres")
}

/// Returns the rows of all statements.
fn texts(messages: &[SimpleQueryMessage]) -> Vec<Vec<String>> {
    let rows = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    let text = |value: Option<&str>| value.unwrap_or_default().to_owned();
    rows.map(|row| (0..row.len()).map(|column| text(row.get(column))).collect())
        .collect()
}

fn children(pid: u32) -> Vec<u32> {
    let listed = Command::new("pgrep")
        .arg("-P")
        .arg(pid.to_string())
        .output()
        .unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    listed.lines().map(|pid| pid.parse().unwrap()).collect()
}

/// Sends a signal to a process that may have ended.
fn try_signal(pid: u32, signal: &str) {
    let mut kill = Command::new("kill");
    kill.arg(format!("-{signal}")).arg(pid.to_string());
    let _ = kill.stderr(Stdio::null()).status();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pgbouncer::PgBouncer;
    use std::time::Instant;

    #[test]
    fn data_survives_a_crash_and_a_failover() {
        let start = Instant::now();
        let mut server = Postgres::start();
        println!("started in {:?}", start.elapsed());
        server.execute("CREATE TABLE t AS SELECT 1 AS n");
        server.kill();
        server.restart();
        let mut standby = server.standby();
        server.wait_for_standby();
        server.execute("UPDATE t SET n = 2");
        server.kill();
        standby.promote();
        assert_eq!(standby.query::<i32>("SELECT n FROM t"), 2);
        println!("all in {:?}", start.elapsed());
    }

    #[test]
    fn stopped_and_paused_servers_come_back() {
        let mut server = Postgres::start();
        server.pause();
        assert!(server.try_execute("SELECT 1").is_err());
        server.resume();
        server.execute("SELECT 1");
        server.stop();
        server.restart();
        server.execute("SELECT 1");
    }

    #[tokio::test]
    async fn poolers_pass_transactions_on() {
        let server = Postgres::start();
        let mut pooler = PgBouncer::to(server.port());
        for _ in 0..2 {
            let (client, connection) = tokio_postgres::connect(&pooler.url(), NoTls).await.unwrap();
            tokio::spawn(connection);
            client.batch_execute("SELECT 1").await.unwrap();
            pooler.restart();
        }
    }
}
