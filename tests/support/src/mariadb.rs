//! A server of MariaDB for a single test, on a free port, with its data in a temporary directory.
//!
//! `LOCK_MYSQL=/opt/mysql` takes the server of MySQL in that folder instead.

use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;

use tempfile::TempDir;

use crate::certificates::Certificates;
use crate::server::{free_port, on_disk, signal, stop, temporary};
use crate::servers::Servers;
use crate::servers::records::{leases, of_a_thief};
use crate::time::comes_true;

/// The user that the server is made with, who may do anything.
const USER: &str = "root";
/// The database of the locks.
const DATABASE: &str = "shop";

/// Killed when dropped, after a check that the test left no locks.
pub struct MariaDb {
    process: Option<Child>,
    directory: TempDir,
    port: u16,
    settings: Vec<String>,
    paused: bool,
    checked: bool,
}

impl MariaDb {
    pub fn start() -> Self {
        Self::with(&[])
    }

    /// Returns `true` if it is MySQL that is tested, which lacks what only MariaDB has.
    pub fn is_mysql() -> bool {
        mysql().is_some()
    }

    /// Starts a server with these options.
    pub fn with(settings: &[&str]) -> Self {
        Self::start_in(temporary("lock-maria-"), settings)
    }

    /// Starts a server that accepts TLS, and demands it of all if the certificates are demanded.
    pub fn with_tls(certificates: &Certificates) -> Self {
        let directory = temporary("lock-maria-");
        let mut settings = Vec::new();
        for (setting, pem) in [
            ("ssl-cert", &certificates.certificate),
            ("ssl-key", &certificates.key),
            ("ssl-ca", &certificates.authority),
        ] {
            let path = directory.path().join(setting);
            std::fs::write(&path, pem).unwrap();
            settings.push(format!("--{setting}={}", path.display()));
        }
        let settings: Vec<_> = settings.iter().map(String::as_str).collect();
        let server = Self::start_in(directory, &settings);
        if certificates.are_demanded {
            server.query("ALTER USER root@127.0.0.1 REQUIRE X509");
        }
        server
    }

    /// Starts a server to be measured: on a disk, with the settings of an installed one.
    pub fn as_installed() -> Self {
        Self::start_in(
            on_disk("lock-maria-"),
            &["--innodb-flush-log-at-trx-commit=1"],
        )
    }

    fn start_in(directory: TempDir, settings: &[&str]) -> Self {
        let mut copy = Command::new("cp");
        copy.arg("-a")
            .arg(&*TEMPLATE)
            .arg(directory.path().join("data"));
        assert!(copy.status().unwrap().success(), "{copy:?}");
        // A replica of MySQL takes no server for its primary that has its own identity.
        let _ = std::fs::remove_file(directory.path().join("data/auto.cnf"));
        let mut server = Self {
            process: None,
            directory,
            port: free_port(),
            settings: settings.iter().map(|&it| it.to_owned()).collect(),
            paused: false,
            checked: true,
        };
        server.restart();
        server
    }

    /// Lets the server use these options from its next start on.
    pub fn set(&mut self, option: &str) {
        self.settings.push(option.to_owned());
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn url(&self) -> String {
        url_at(self.port)
    }

    /// Returns the URL for another user, who may have a password.
    pub fn url_for(&self, user: &str) -> String {
        format!("mysql://{user}@127.0.0.1:{}/{DATABASE}", self.port)
    }

    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    /// Lets locks be left at the end.
    pub fn leave_locks(&mut self) {
        self.checked = false;
    }

    /// Executes statements, and returns what they bring: a line for each row, in which tabs part the columns.
    #[track_caller]
    pub fn query(&self, statements: &str) -> String {
        let output = self.try_query(statements);
        output.unwrap_or_else(|error| panic!("{statements}: {error}"))
    }

    pub fn try_query(&self, statements: &str) -> Result<String, String> {
        Self::query_at(&self.socket(), statements)
    }

    /// Executes statements at the server with that socket.
    pub fn query_at(socket: &Path, statements: &str) -> Result<String, String> {
        let mut client = Command::new("mariadb");
        client.args(["--no-defaults", "--batch", "--skip-column-names"]);
        client.args(["--user", USER]).arg(option("socket", socket));
        let output = client
            .args(["--execute", statements, DATABASE])
            .output()
            .unwrap();
        let text = |bytes| String::from_utf8_lossy(bytes).trim().to_owned();
        match output.status.success() {
            true => Ok(text(&output.stdout)),
            false => Err(text(&output.stderr)),
        }
    }

    /// Returns the numbers of the sessions that processes have, but for the test's own.
    pub fn sessions(&self) -> Vec<u64> {
        // MariaDB 10.11 makes a table for a query of `information_schema`, and has crashed as it dropped one.
        let list = "SHOW PROCESSLIST";
        let rows = self.query(list);
        let rows = rows.lines().map(|row| row.split('\t').collect::<Vec<_>>());
        let others = rows.filter(|row| row[3] != "NULL" && row[4] != "Killed" && row[7] != list);
        others.map(|row| row[0].parse().unwrap()).collect()
    }

    /// Ends all sessions of processes. Returns how many there were.
    pub fn end_sessions(&self) -> usize {
        let sessions = self.sessions();
        for id in &sessions {
            // It may have ended by itself.
            let _ = self.try_query(&format!("KILL {id}"));
        }
        sessions.len()
    }

    fn pid(&self) -> u32 {
        self.process.as_ref().expect("the server runs").id()
    }

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

    /// Restarts the server on its port, with all data that it has flushed.
    pub fn restart(&mut self) {
        self.kill();
        let mut process = self.command().spawn().unwrap();
        let mut gone = false;
        // MySQL may take half a minute to begin beside others.
        let answers = (0..4).any(|_| {
            comes_true(|| {
                gone = process.try_wait().unwrap().is_some();
                gone || self.try_query("SELECT 1").is_ok()
            })
        });
        self.process = Some(process);
        let log = std::fs::read_to_string(self.directory.path().join("log.err"));
        assert!(answers && !gone, "{}", log.unwrap_or_default());
    }

    fn command(&self) -> Command {
        let mut server = server();
        let path = self.directory.path();
        server.arg(option("init-file", path.join("data").join(FIRST)));
        server.arg(option("datadir", path.join("data")));
        server.arg(option("socket", self.socket()));
        server.arg(option("log-error", path.join("log.err")));
        server.arg(option("port", self.port.to_string()));
        server.args([
            "--bind-address=127.0.0.1",
            "--skip-name-resolve",
            "--skip-log-bin",
        ]);
        // A killed process loses nothing that it has written.
        server.args([
            "--innodb-flush-log-at-trx-commit=2",
            "--max-connections=2000",
        ]);
        server.args(["--innodb-buffer-pool-size=16M", "--innodb-log-file-size=8M"]);
        server.args(&self.settings).args(as_root());
        server.stdout(Stdio::null()).stderr(Stdio::null());
        server
    }

    /// Returns the locks that are held, and those that wait for a holder's end have none.
    fn held(&self) -> Vec<String> {
        let locks = "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), name, HEX(record) \
                     FROM distributed_locks WHERE name NOT REGEXP '::(asks$|process:|recalls:|trial:)'";
        // There may be no table.
        let rows = self.try_query(locks).unwrap_or_default();
        let rows = rows.lines().map(|row| row.split('\t').collect::<Vec<_>>());
        let held =
            rows.filter(|row| leases(&unhex(row[2])).any(|until| until > row[0].parse().unwrap()));
        held.map(|row| row[1].to_owned()).collect()
    }
}

pub fn url_at(port: u16) -> String {
    format!("mysql://{USER}@127.0.0.1:{port}/{DATABASE}")
}

impl Servers for MariaDb {
    fn urls_at(&self, ports: &[u16]) -> Vec<String> {
        ports.iter().copied().map(url_at).collect()
    }

    fn ports(&self) -> Vec<u16> {
        vec![self.port]
    }

    fn pause(&mut self, _: usize) {
        Self::pause(self);
    }

    fn resume(&mut self, _: usize) {
        Self::resume(self);
    }

    fn kill(&mut self, _: usize) {
        Self::kill(self);
    }

    fn restart(&mut self, _: usize) {
        Self::restart(self);
    }

    fn clients(&self, _: usize) -> Vec<String> {
        let sessions = "SELECT host FROM information_schema.processlist \
                        WHERE db IS NOT NULL AND id <> CONNECTION_ID() AND command <> 'Killed'";
        let hosts = self.query(sessions);
        hosts.lines().map(|host| format!(" addr={host} ")).collect()
    }

    fn delete(&self, key: &str) {
        let name = hex(format!("lock:{key}").as_bytes());
        self.query(&format!(
            "DELETE FROM distributed_locks WHERE name = x'{name}'"
        ));
    }

    fn steal(&self, key: &str) {
        let (name, record) = (hex(format!("lock:{key}").as_bytes()), hex(&of_a_thief()));
        self.query(&format!(
            "UPDATE distributed_locks SET record = x'{record}' WHERE name = x'{name}'"
        ));
    }

    fn leftovers(&self) -> Vec<String> {
        self.held()
    }

    fn clear(&mut self, _: usize) {
        self.leave_locks();
    }
}

impl Drop for MariaDb {
    fn drop(&mut self) {
        let mut left = Vec::new();
        let is_checked = self.checked && !self.paused && self.process.is_some();
        if is_checked && !std::thread::panicking() {
            comes_true(|| {
                left = self.held();
                left.is_empty()
            });
        }
        self.kill();
        if !std::thread::panicking() {
            assert!(left.is_empty(), "locks are left: {left:?}");
        }
    }
}

/// What the server runs at each start.
const FIRST: &str = "first.sql";
const USER_OF_TCP: &str = "CREATE USER IF NOT EXISTS root@127.0.0.1;\n\
                           GRANT ALL ON *.* TO root@127.0.0.1 WITH GRANT OPTION";

/// Returns the folder of MySQL, if that is to be tested.
fn mysql() -> Option<PathBuf> {
    std::env::var_os("LOCK_MYSQL").map(PathBuf::from)
}

/// Returns the command of a server with no settings.
fn server() -> Command {
    let Some(folder) = mysql() else {
        let mut server = Command::new(program("mariadbd"));
        server.arg("--no-defaults");
        return server;
    };
    let mut server = Command::new(folder.join("bin/mysqld"));
    let libraries = ["lib/private", "lib", "bin"].map(|it| folder.join(it));
    server.env("LD_LIBRARY_PATH", std::env::join_paths(libraries).unwrap());
    server.args([
        "--no-defaults",
        "--mysqlx=OFF",
        "--default-authentication-plugin=mysql_native_password",
    ]);
    server.arg(option("basedir", &folder));
    server.arg(option("lc-messages-dir", folder.join("share")));
    server.arg(option("character-sets-dir", folder.join("share/charsets")));
    server
}

/// The files of an empty server with the database, made once.
static TEMPLATE: LazyLock<PathBuf> = LazyLock::new(|| {
    let version = server().arg("--version").output().unwrap();
    let version = String::from_utf8(version.stdout).unwrap();
    let number = version
        .split_whitespace()
        .find(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    let name = format!(
        "lock-tests-mariadb-{}-{}",
        number.unwrap_or("unknown"),
        own_id()
    );
    let template = std::env::temp_dir().join(name);
    if template.join("mysql").is_dir() {
        return template;
    }
    let directory = on_disk("lock-maria-install-");
    let data = directory.path().join("data");
    let mut install = match mysql() {
        Some(_) => server(),
        None => Command::new(program("mariadb-install-db")),
    };
    match mysql() {
        Some(_) => install.arg("--initialize-insecure"),
        None => install.args([
            "--no-defaults",
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
        ]),
    };
    install.arg(option("datadir", &data)).args(as_root());
    let made = install.output().unwrap();
    assert!(made.status.success(), "{made:?}");
    let first = format!("{USER_OF_TCP};\nCREATE DATABASE IF NOT EXISTS {DATABASE};\n");
    std::fs::write(data.join(FIRST), first).unwrap();
    // Another process may have been faster.
    if std::fs::rename(&data, &template).is_err() {
        assert!(
            template.join("mysql").is_dir(),
            "{} is complete",
            template.display()
        );
    }
    template
});

fn own_id() -> u32 {
    std::fs::metadata("/proc/self").map_or(0, |own| own.uid())
}

/// The server runs as root only if it is asked to.
fn as_root() -> Option<&'static str> {
    (own_id() == 0).then_some("--user=root")
}

/// Returns the path of a program, which may not be in the path of a user.
fn program(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let others = ["/usr/sbin", "/usr/local/sbin", "/opt/homebrew/bin"].map(PathBuf::from);
    let mut files = std::env::split_paths(&path)
        .chain(others)
        .map(|it| it.join(name));
    let file = files.find(|file| file.is_file());
    file.unwrap_or_else(|| panic!("`{name}` is missing: install MariaDB's server"))
}

fn option(name: &str, value: impl AsRef<OsStr>) -> std::ffi::OsString {
    let mut option = std::ffi::OsString::from(format!("--{name}="));
    option.push(value);
    option
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2);
    let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.map(byte).collect()
}
