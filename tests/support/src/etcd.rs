//! etcd with one member or three, on free ports, for a single test.

use std::fs::{self, File};
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::certificates::Certificates;
use crate::etcd_gateway::{self, ask, base64};
use crate::members::{Member, Members, Replicated};
use crate::proxy::Proxy;
use crate::server::{free_port, on_disk, temporary};
use crate::time::{comes_true, eventually};

/// How long a member has to start, and a cluster to elect a leader, on a busy machine.
const START: Duration = Duration::from_secs(30);

/// The timeouts that etcd has by itself.
const SLOW: [&str; 4] = ["--heartbeat-interval", "100", "--election-timeout", "1000"];

/// Killed when dropped, after a check that the test left no keys of locks.
pub struct Etcd {
    members: Members,
    /// The URLs at which the others reach each member.
    peers: Vec<String>,
    directory: TempDir,
    has_tls: bool,
    user: Option<String>,
}

impl Etcd {
    pub fn start() -> Self {
        Self::with(temporary, 1, None, &[], false)
    }

    /// Starts a cluster of three members.
    pub fn three() -> Self {
        Self::with(temporary, 3, None, &[], false)
    }

    /// Starts a cluster of three members with the timeouts that etcd has by itself.
    pub fn three_that_are_slow() -> Self {
        Self::with(temporary, 3, None, &SLOW, false)
    }

    /// Starts a cluster of three members that can be parted from one another.
    pub fn three_behind_proxies() -> Self {
        Self::with(temporary, 3, None, &[], true)
    }

    /// Starts a member that accepts only TLS.
    pub fn with_tls(certificates: Certificates) -> Self {
        Self::with(temporary, 1, Some(certificates), &[], false)
    }

    pub fn with_options(options: &[&str]) -> Self {
        Self::with(temporary, 1, None, options, false)
    }

    /// Starts etcd with a user who may use the keys below `lock:`, of that name and password.
    pub fn with_user(options: &[&str], login: &str) -> Self {
        let mut etcd = Self::with_options(options);
        let (name, _) = login.split_once(':').unwrap();
        for words in [
            &["user", "add", "root:top-secret"][..],
            &["role", "add", "root"],
            &["user", "grant-role", "root", "root"],
            &["user", "add", login],
            &["role", "add", "locks"],
            &[
                "role",
                "grant-permission",
                "locks",
                "readwrite",
                "--prefix=true",
                "lock:",
            ],
            &["user", "grant-role", name, "locks"],
            &["auth", "enable"],
        ] {
            etcd.ctl(words);
        }
        etcd.log_in("root:top-secret");
        etcd
    }

    /// Starts members to be measured: on a disk, and with the timeouts that etcd has by itself.
    pub fn as_installed(count: usize) -> Self {
        Self::with(on_disk, count, None, &SLOW, false)
    }

    fn with(
        directory: fn(&str) -> TempDir,
        count: usize,
        tls: Option<Certificates>,
        options: &[&str],
        behind_proxies: bool,
    ) -> Self {
        // Another program may take a port before a member does.
        for _ in 0..5 {
            let mut etcd = Self::begin(
                directory("etcd-"),
                count,
                tls.as_ref(),
                options,
                behind_proxies,
            );
            let mut ended = false;
            comes_true(|| {
                ended = (0..count).any(|number| etcd.has_ended(number));
                ended || etcd.is_healthy()
            });
            if !ended {
                assert!(etcd.is_healthy(), "etcd starts");
                return etcd;
            }
            // It is not asked what is left.
            etcd.kill(0);
        }
        panic!("etcd ended five times while it started");
    }

    fn begin(
        directory: TempDir,
        count: usize,
        tls: Option<&Certificates>,
        options: &[&str],
        behind_proxies: bool,
    ) -> Self {
        let file = |name: &str| directory.path().join(name);
        if let Some(tls) = tls {
            fs::write(file("authority.pem"), &tls.authority).unwrap();
            fs::write(file("certificate.pem"), &tls.certificate).unwrap();
            fs::write(file("key.pem"), &tls.key).unwrap();
        }
        let ports: Vec<_> = (0..count).map(|_| [free_port(), free_port()]).collect();
        let doors = ports.iter().map(|[_, peer]| Proxy::to(*peer));
        let doors: Vec<_> = doors.take_while(|_| behind_proxies).collect();
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let peers: Vec<_> = match behind_proxies {
            true => doors.iter().map(|door| url(door.port())).collect(),
            false => ports.iter().map(|[_, peer]| url(*peer)).collect(),
        };
        let cluster = peers.iter().enumerate();
        let cluster: Vec<_> = cluster.map(|(n, url)| format!("m{n}={url}")).collect();
        let member = |(number, ports): (usize, &[u16; 2])| {
            let [client, peer] = *ports;
            let mut command = command(number, directory.path());
            let client = format!("{}://127.0.0.1:{client}", scheme(tls.is_some()));
            command
                .args(["--listen-client-urls", &client])
                .args(["--advertise-client-urls", &client])
                .args(["--listen-peer-urls", &url(peer)])
                .args(["--initial-advertise-peer-urls", &peers[number]])
                .args(["--initial-cluster", &cluster.join(",")])
                .args(options);
            if let Some(tls) = tls {
                let (certificate, key) = (file("certificate.pem"), file("key.pem"));
                command.arg("--cert-file").arg(certificate);
                command.arg("--key-file").arg(key);
                if tls.are_demanded {
                    command.arg("--client-cert-auth");
                    command.arg("--trusted-ca-file").arg(file("authority.pem"));
                }
            }
            Member::new(ports, command)
        };
        let members = ports.iter().enumerate().map(member).collect();
        Self {
            members: Members::start(members, doors),
            peers,
            directory,
            has_tls: tls.is_some(),
            user: None,
        }
    }

    /// Returns the URL of all members.
    pub fn url(&self) -> String {
        let scheme = if self.has_tls { "etcds" } else { Self::SCHEME };
        format!("{scheme}://{}", self.hosts())
    }

    fn url_of(&self, number: usize) -> String {
        format!("{}://127.0.0.1:{}", scheme(self.has_tls), self.port(number))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn is_healthy(&self) -> bool {
        let mut command = self.command(&["endpoint", "health", "--command-timeout=5s"]);
        command.output().is_ok_and(|output| output.status.success())
    }

    /// Waits until all members that run serve requests.
    pub fn until_healthy(&self) {
        eventually("etcd is healthy", || self.is_healthy());
    }

    /// Returns `etcdctl` with these words, which connects to all members that run.
    pub fn command(&self, words: &[&str]) -> Command {
        let endpoints: Vec<_> = self.serving().map(|number| self.url_of(number)).collect();
        let mut command = Command::new("etcdctl");
        command
            .env("ETCDCTL_API", "3")
            .args(["--endpoints", &endpoints.join(",")])
            .args(words)
            .stdin(Stdio::null());
        if self.has_tls {
            command.arg("--cacert").arg(self.file("authority.pem"));
            // It shows that of the server.
            command.arg("--cert").arg(self.file("certificate.pem"));
            command.arg("--key").arg(self.file("key.pem"));
        }
        if let Some(user) = &self.user {
            command.args(["--user", user]);
        }
        command
    }

    /// Runs `etcdctl`, and returns what it prints.
    pub fn ctl(&self, words: &[&str]) -> String {
        let mut command = self.command(words);
        command.args(["--dial-timeout=20s", "--command-timeout=20s"]);
        let Output {
            status,
            stdout,
            stderr,
        } = command.output().unwrap();
        let words = words.join(" ");
        assert!(
            status.success(),
            "{words}: {}",
            String::from_utf8_lossy(&stderr)
        );
        String::from_utf8_lossy(&stdout).into_owned()
    }

    /// Removes all history. Returns `false` if the cluster does not answer within a second.
    pub fn compact(&self) -> bool {
        let soon_answered = |words: &[&str]| {
            let mut command = self.command(words);
            command.args(["--dial-timeout=1s", "--command-timeout=5s"]);
            command.output().unwrap()
        };
        let status = soon_answered(&["endpoint", "status", "-w", "fields"]).stdout;
        let status = String::from_utf8_lossy(&status);
        let mut lines = status.lines();
        let revision = lines.find_map(|line| line.strip_prefix("\"Revision\" : "));
        revision.is_some_and(|revision| soon_answered(&["compact", revision]).status.success())
    }

    /// Runs `etcdctl` from then on as this user, written `name:password`.
    pub fn log_in(&mut self, user: &str) {
        self.user = Some(user.to_owned());
    }

    /// Returns the keys of a lock's claims in their order. `name` has neither a slash nor a percent sign.
    pub fn line(&self, name: &str) -> Vec<String> {
        let folder = format!("{name}/");
        let words = [
            "get",
            "--prefix",
            &folder,
            "--keys-only",
            "--sort-by=CREATE",
        ];
        let keys = self.ctl(&words);
        let keys = keys.lines().filter(|line| !line.is_empty());
        keys.map(str::to_owned).collect()
    }

    /// Waits until a lock has that number of claims.
    pub fn until_line(&self, name: &str, claims: usize) {
        eventually("the claims are there", || self.line(name).len() == claims);
    }

    /// Returns the port of the first member that runs.
    fn gateway(&self) -> u16 {
        let member = self.serving().next().expect("a member runs");
        self.port(member)
    }

    /// Returns the number of the leader if one of the members that run knows itself to be that.
    pub fn leader_now(&self) -> Option<usize> {
        self.serving().find(|number| {
            let status = ask(self.port(*number), "maintenance/status", "{}");
            let status = status.unwrap_or_default();
            let field = |name: &str| {
                let (_, rest) = status.split_once(&format!(r#""{name}":""#))?;
                rest.split_once('"').map(|(value, _)| value)
            };
            field("leader").is_some_and(|leader| field("member_id") == Some(leader))
        })
    }

    /// Returns the number of the leader among the members.
    pub fn leader(&self) -> usize {
        let mut leader = None;
        eventually("there is a leader", || {
            let mut status = self.command(&["endpoint", "status", "--command-timeout=5s"]);
            // Address, id, version, size, whether it leads, and more.
            let status = status.args(["-w", "simple"]).output().unwrap().stdout;
            let status = String::from_utf8_lossy(&status).into_owned();
            let leads = |line: &&str| line.split(", ").nth(4) == Some("true");
            let line = status.lines().find(leads);
            let leads = |number: &usize| {
                let port = format!(":{},", self.port(*number));
                line.is_some_and(|line| line.contains(&port))
            };
            leader = (0..self.size()).find(leads);
            leader.is_some()
        });
        leader.unwrap()
    }
}

impl Replicated for Etcd {
    const SCHEME: &str = "etcd";

    fn start_again(&mut self, number: usize) {
        let deadline = Instant::now() + START;
        while Instant::now() < deadline {
            self.begin_restart(number);
            let mut up = false;
            comes_true(|| {
                up = self.is_healthy();
                up || self.has_ended(number)
            });
            if up {
                return;
            }
            self.kill(number);
        }
        panic!("etcd starts again");
    }

    fn part_from_others(&self, number: usize) {
        // A request of a member names the URL at which the others reach that member.
        let from = format!("{}\r\n", self.peers[number]);
        for (other, door) in self.links.iter().enumerate() {
            match other == number {
                true => door.black_hole(),
                false => door.hold_from(&from),
            }
        }
    }

    /// Without those that a crash or a foreign client may leave.
    fn all_claims(&self) -> Vec<String> {
        let left = self.ctl(&["get", "--prefix", "lock:", "--keys-only"]);
        let left = left
            .lines()
            .filter(|key| !key.is_empty() && !key.contains("::"));
        left.map(str::to_owned).collect()
    }

    fn delete_all_claims(&self) {
        self.ctl(&["del", "--prefix", "lock:"]);
    }

    fn delete_line(&self, name: &str) {
        etcd_gateway::delete_line(self.gateway(), name).expect("the claims are deleted");
    }

    /// Overwrites the first claim.
    fn steal_line(&self, name: &str) {
        let line = self.line(name);
        let holder = line.first().expect("the lock is held");
        let (key, value) = (base64(holder), base64("thief"));
        let put = format!(r#"{{"key":"{key}","value":"{value}"}}"#);
        ask(self.gateway(), "kv/put", &put).expect("the claim is overwritten");
    }
}

/// Returns the scheme of a member's own URLs.
fn scheme(has_tls: bool) -> &'static str {
    if has_tls { "https" } else { "http" }
}

/// Returns a member's program, without its addresses.
fn command(number: usize, directory: &Path) -> Command {
    let name = format!("m{number}");
    let log = File::create(directory.join(format!("{name}.log"))).unwrap();
    // The program can be another version than that of the distribution.
    let program = std::env::var_os("LOCK_ETCD").unwrap_or_else(|| "etcd".into());
    let mut command = Command::new(program);
    command
        .args(["--name", &name, "--log-level", "warn", "--logger", "zap"])
        .args(["--log-outputs", "stderr"])
        .arg("--data-dir")
        .arg(directory.join(&name))
        // An election takes half a second.
        .args(["--heartbeat-interval", "50", "--election-timeout", "500"])
        // A password is checked soon.
        .args(["--bcrypt-cost", "4"])
        .env_remove("ETCDCTL_API")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log);
    command
}

impl Deref for Etcd {
    type Target = Members;

    fn deref(&self) -> &Members {
        &self.members
    }
}

impl DerefMut for Etcd {
    fn deref_mut(&mut self) -> &mut Members {
        &mut self.members
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.check();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leader_that_is_parted_from_the_others_is_replaced() {
        let etcd = Etcd::three_behind_proxies();
        let leader = etcd.leader();
        etcd.part_from_others(leader);
        eventually("another member leads", || etcd.leader() != leader);
        let mut health = etcd.command(&["endpoint", "health", "--command-timeout=5s"]);
        let health = health.args(["--endpoints", &etcd.url_of(leader)]);
        assert!(
            !health.output().unwrap().status.success(),
            "it has a leader"
        );
        etcd.rejoin();
        etcd.until_healthy();
    }
}
