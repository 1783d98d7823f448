//! PgBouncer in front of a PostgreSQL server, which gives clients a backend for one transaction each.

use std::process::{Child, Stdio};

use tempfile::TempDir;

use crate::postgres::files::{ProgramUser, own};
use crate::postgres::url_at;
use crate::server::{free_port, give_back_port, signal, stop, temporary};
use crate::time::comes_true;

/// For how many seconds it does not connect to a server that was away. By default these are 15, for which no
/// lock could be acquired.
const LOGIN_RETRY: u32 = 1;

/// How many connections the clients of one database share.
pub const POOL_SIZE: usize = 8;

/// Killed when dropped.
pub struct PgBouncer {
    process: Option<Child>,
    directory: TempDir,
    port: u16,
    server: u16,
}

impl PgBouncer {
    /// Starts a pooler that connects to a server's port.
    pub fn to(server: u16) -> Self {
        let directory = temporary("lock-bouncer-");
        own(directory.path());
        let mut pooler = Self {
            process: None,
            directory,
            port: free_port(),
            server,
        };
        pooler.restart();
        pooler
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn url(&self) -> String {
        url_at(self.port)
    }

    /// Returns the URL by which the same database has a pool of its own.
    pub fn url_of_another_pool(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/locks", self.port)
    }

    /// Kills the pooler at once, and with it all of its connections.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    /// Freezes the pooler: it keeps its connections and passes nothing on.
    pub fn pause(&mut self) {
        stop(self.pid());
    }

    pub fn resume(&mut self) {
        signal(self.pid(), "CONT");
    }

    /// Returns how often the server could not be connected to, by the pooler's log.
    pub fn failures(&self) -> usize {
        self.log().matches("connect failed").count()
    }

    /// Returns how many messages of the server came for no client: another one could have got them.
    pub fn misplaced(&self) -> usize {
        self.log().matches("when not linked").count()
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    fn pid(&self) -> u32 {
        self.process.as_ref().expect("the pooler runs").id()
    }

    /// Starts the pooler again on its port.
    pub fn restart(&mut self) {
        self.kill();
        self.write("users", "\"postgres\" \"\"\n");
        let directory = self.directory.path().display();
        let (port, server) = (self.port, self.server);
        let settings = format!(
            "[databases]\n\
             * = host=127.0.0.1 port={server}\n\
             locks = host=127.0.0.1 port={server} dbname=postgres pool_size=5\n\
             [pgbouncer]\n\
             listen_addr = 127.0.0.1\n\
             listen_port = {port}\n\
             unix_socket_dir =\n\
             auth_type = trust\n\
             auth_file = {directory}/users\n\
             server_login_retry = {LOGIN_RETRY}\n\
             pool_mode = transaction\n\
             default_pool_size = {POOL_SIZE}\n\
             max_client_conn = 200\n\
             logfile = {directory}/log\n"
        );
        self.write("settings", &settings);
        for _ in 0..20 {
            let mut command = ProgramUser::command("pgbouncer");
            command
                .arg("--quiet")
                .arg(self.directory.path().join("settings"));
            command
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            let mut process = command.spawn().unwrap();
            let mut gone = false;
            let listens = comes_true(|| {
                gone = process.try_wait().unwrap().is_some();
                gone || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
            });
            self.process = Some(process);
            if listens && !gone {
                return;
            }
            self.kill();
        }
        panic!("pgbouncer does not start on port {port}:\n{}", self.log());
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        own(&path);
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        self.kill();
        give_back_port(self.port);
    }
}
