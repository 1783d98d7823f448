//! etcd with one member or three, on free ports, for a single test.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::certificates::Certificates;
use crate::proxy::Proxy;
use crate::server::{free_port, signal, stop, temporary};
use crate::time::{comes_true, eventually};

/// How long a member has to start, and a cluster to elect a leader, on a busy machine.
const START: Duration = Duration::from_secs(30);

/// Killed when dropped, after a check that the test left no keys of locks.
pub struct Etcd {
    members: Vec<Member>,
    directory: TempDir,
    tls: Option<Certificates>,
    user: Option<String>,
}

struct Member {
    client: u16,
    peer: u16,
    /// Through which the others reach it.
    door: Option<Proxy>,
    process: Option<Child>,
    paused: bool,
}

impl Etcd {
    pub fn start() -> Self {
        Self::with(1, None, &[], false)
    }

    /// Starts a cluster of three members.
    pub fn three() -> Self {
        Self::with(3, None, &[], false)
    }

    /// Starts a cluster of three members that can be parted from one another.
    pub fn three_behind_proxies() -> Self {
        Self::with(3, None, &[], true)
    }

    /// Starts a member that accepts only TLS.
    pub fn with_tls(certificates: Certificates) -> Self {
        Self::with(1, Some(certificates), &[], false)
    }

    pub fn with_options(options: &[&str]) -> Self {
        Self::with(1, None, options, false)
    }

    fn with(
        count: usize,
        tls: Option<Certificates>,
        options: &[&str],
        behind_proxies: bool,
    ) -> Self {
        // Another program may take a port before a member does.
        for _ in 0..5 {
            let member = |_| {
                let peer = free_port();
                Member {
                    client: free_port(),
                    peer,
                    door: behind_proxies.then(|| Proxy::to(peer)),
                    process: None,
                    paused: false,
                }
            };
            let mut etcd = Self {
                members: (0..count).map(member).collect(),
                directory: temporary("etcd-"),
                tls: None,
                user: None,
            };
            if let Some(tls) = &tls {
                for (name, text) in [
                    ("authority.pem", &tls.authority),
                    ("certificate.pem", &tls.certificate),
                    ("key.pem", &tls.key),
                ] {
                    std::fs::write(etcd.file(name), text).unwrap();
                }
                etcd.tls = Some(Certificates {
                    authority: tls.authority.clone(),
                    certificate: tls.certificate.clone(),
                    key: tls.key.clone(),
                });
            }
            for number in 0..count {
                etcd.run(number, options);
            }
            let mut ended = false;
            comes_true(START, || {
                ended = (0..count).any(|number| !etcd.runs(number));
                ended || etcd.is_healthy()
            });
            if !ended {
                assert!(etcd.is_healthy(), "etcd starts");
                return etcd;
            }
        }
        panic!("etcd ended five times while it started");
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn run(&mut self, number: usize, options: &[&str]) {
        let cluster = self.members.iter().enumerate();
        let cluster: Vec<_> = cluster
            .map(|(number, member)| format!("m{number}={}", member.peer_url()))
            .collect();
        let name = format!("m{number}");
        let log = std::fs::File::create(self.file(&format!("{name}.log"))).unwrap();
        let client = self.url_of(number);
        let mut command = Command::new("etcd");
        command
            .args(["--name", &name, "--log-level", "warn", "--logger", "zap"])
            .args(["--log-outputs", "stderr"])
            .arg("--data-dir")
            .arg(self.file(&name))
            .args([
                "--listen-client-urls",
                &client,
                "--advertise-client-urls",
                &client,
            ])
            .args([
                "--listen-peer-urls",
                &format!("http://127.0.0.1:{}", self.members[number].peer),
            ])
            .args([
                "--initial-advertise-peer-urls",
                &self.members[number].peer_url(),
            ])
            .args(["--initial-cluster", &cluster.join(",")])
            // An election takes half a second.
            .args(["--heartbeat-interval", "50", "--election-timeout", "500"])
            // A password is checked soon.
            .args(["--bcrypt-cost", "4"])
            .args(options)
            .env_remove("ETCDCTL_API")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        if self.tls.is_some() {
            command
                .arg("--cert-file")
                .arg(self.file("certificate.pem"))
                .arg("--key-file")
                .arg(self.file("key.pem"));
        }
        self.members[number].process = Some(command.spawn().expect("`etcd` is installed"));
    }

    fn url_of(&self, number: usize) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}", self.members[number].client)
    }

    /// Returns the URL of all members.
    pub fn url(&self) -> String {
        let hosts = self.members.iter();
        let hosts: Vec<_> = hosts
            .map(|member| format!("127.0.0.1:{}", member.client))
            .collect();
        let scheme = if self.tls.is_some() { "etcds" } else { "etcd" };
        format!("{scheme}://{}", hosts.join(","))
    }

    pub fn port(&self, number: usize) -> u16 {
        self.members[number].client
    }

    pub fn len(&self) -> usize {
        self.members.len()
    }

    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    fn runs(&mut self, number: usize) -> bool {
        let process = self.members[number].process.as_mut();
        process.is_some_and(|process| matches!(process.try_wait(), Ok(None)))
    }

    fn is_healthy(&self) -> bool {
        let mut command = self.command(&["endpoint", "health", "--command-timeout=1s"]);
        command.output().is_ok_and(|output| output.status.success())
    }

    /// Waits until all members that run serve requests.
    pub fn until_healthy(&self) {
        eventually(START, "etcd is healthy", || self.is_healthy());
    }

    /// Returns `etcdctl` with these words, which connects to all members that run.
    pub fn command(&self, words: &[&str]) -> Command {
        let running = self.members.iter().enumerate();
        let running = running.filter(|(_, member)| member.process.is_some() && !member.paused);
        let endpoints: Vec<_> = running.map(|(number, _)| self.url_of(number)).collect();
        let mut command = Command::new("etcdctl");
        command
            .env("ETCDCTL_API", "3")
            .args(["--endpoints", &endpoints.join(",")])
            .args(words)
            .stdin(Stdio::null());
        if self.tls.is_some() {
            command.arg("--cacert").arg(self.file("authority.pem"));
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
        let within_a_second = |words: &[&str]| {
            let mut command = self.command(words);
            command.args(["--dial-timeout=1s", "--command-timeout=1s"]);
            command.output().unwrap()
        };
        let status = within_a_second(&["endpoint", "status", "-w", "fields"]).stdout;
        let status = String::from_utf8_lossy(&status);
        let mut lines = status.lines();
        let revision = lines.find_map(|line| line.strip_prefix("\"Revision\" : "));
        revision.is_some_and(|revision| within_a_second(&["compact", revision]).status.success())
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
        eventually(START, "the claims are there", || {
            self.line(name).len() == claims
        });
    }

    /// Deletes the claims of a lock, or overwrites the first of them.
    pub fn tamper(&self, name: &str, thief: Option<&str>) {
        match thief {
            Some(thief) => {
                let line = self.line(name);
                let holder = line.first().expect("the lock is held");
                let (key, value) = (base64(holder), base64(thief));
                self.ask("kv/put", &format!(r#"{{"key":"{key}","value":"{value}"}}"#));
            }
            None => {
                let (first, end) = (base64(&format!("{name}/")), base64(&format!("{name}0")));
                self.ask(
                    "kv/deleterange",
                    &format!(r#"{{"key":"{first}","range_end":"{end}"}}"#),
                );
            }
        }
    }

    /// Sends a request to the first member that runs, in JSON: sooner than `etcdctl` does.
    fn ask(&self, method: &str, body: &str) {
        let running = |member: &&Member| member.process.is_some() && !member.paused;
        let member = self.members.iter().find(running).expect("a member runs");
        let mut stream = TcpStream::connect(("127.0.0.1", member.client)).unwrap();
        let length = body.len();
        let head = format!("POST /v3/{method} HTTP/1.0\r\nContent-Length: {length}\r\n\r\n");
        stream.write_all((head + body).as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.contains(" 200 OK"), "{answer}");
    }

    /// Returns the number of the leader among the members.
    pub fn leader(&self) -> usize {
        let mut leader = None;
        eventually(START, "there is a leader", || {
            let mut status = self.command(&["endpoint", "status", "--command-timeout=1s"]);
            // Address, id, version, size, whether it leads, and more.
            let status = status.args(["-w", "simple"]).output().unwrap().stdout;
            let status = String::from_utf8_lossy(&status).into_owned();
            let leads = |line: &&str| line.split(", ").nth(4) == Some("true");
            let line = status.lines().find(leads);
            let leads = |number: &usize| {
                let port = format!(":{},", self.members[*number].client);
                line.is_some_and(|line| line.contains(&port))
            };
            leader = (0..self.len()).find(leads);
            leader.is_some()
        });
        leader.unwrap()
    }

    /// Parts a member from the others, which clients still reach.
    pub fn part(&self, number: usize) {
        // A request of a member names the URL at which the others reach that member.
        let from = format!("{}\r\n", self.members[number].peer_url());
        for (other, member) in self.members.iter().enumerate() {
            match &member.door {
                Some(door) if other == number => door.black_hole(),
                Some(door) => door.hold_from(&from),
                None => panic!("it has no proxy"),
            }
        }
    }

    /// Ends the parting of members: what was held arrives late.
    pub fn rejoin(&self) {
        let doors = self
            .members
            .iter()
            .filter_map(|member| member.door.as_ref());
        doors.for_each(Proxy::heal);
    }

    pub fn pause(&mut self, number: usize) {
        let process = self.members[number].process.as_ref().expect("it runs");
        stop(process.id());
        self.members[number].paused = true;
    }

    pub fn resume(&mut self, number: usize) {
        let process = self.members[number].process.as_ref().expect("it runs");
        signal(process.id(), "CONT");
        self.members[number].paused = false;
    }

    pub fn kill(&mut self, number: usize) {
        if let Some(mut process) = self.members[number].process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
        self.members[number].paused = false;
    }

    /// Starts a member again, with its data, and does not wait for it.
    pub fn begin_restart(&mut self, number: usize) {
        self.run(number, &[]);
    }

    /// Starts a member again, with its data.
    pub fn restart(&mut self, number: usize) {
        let deadline = Instant::now() + START;
        while Instant::now() < deadline {
            self.run(number, &[]);
            let mut up = false;
            comes_true(Duration::from_secs(5), || {
                up = self.is_healthy();
                up || !self.runs(number)
            });
            if up {
                return;
            }
            self.kill(number);
        }
        panic!("etcd starts again");
    }

    /// Deletes all keys of locks.
    pub fn clear(&self) {
        self.ctl(&["del", "--prefix", "lock:"]);
    }

    /// Returns the connections of clients to a member, each with ` addr=127.0.0.1:` and its port. Linux only.
    pub fn clients(&self, number: usize) -> Vec<String> {
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap_or_default();
        let own = self.own_sockets(number);
        let port = |address: &str| {
            let port = address.rsplit(':').next()?;
            u16::from_str_radix(port, 16).ok()
        };
        let client = |line: &str| {
            let fields: Vec<_> = line.split_whitespace().collect();
            let [_, local, remote, "01", _, _, _, _, _, inode, ..] = fields[..] else {
                return None;
            };
            // It is also a client of its own.
            let is_own = own.contains(&format!("socket:[{inode}]"));
            (port(remote)? == self.port(number) && !is_own).then(|| port(local))?
        };
        let clients = table.lines().filter_map(client);
        clients
            .map(|port| format!("etcd addr=127.0.0.1:{port} "))
            .collect()
    }

    /// Returns the sockets of a member's process.
    fn own_sockets(&self, number: usize) -> HashSet<String> {
        let process = self.members[number].process.as_ref().map(Child::id);
        let files = process.and_then(|id| std::fs::read_dir(format!("/proc/{id}/fd")).ok());
        let links = files.into_iter().flatten().flatten();
        let links = links.filter_map(|file| std::fs::read_link(file.path()).ok());
        links
            .map(|link| link.to_string_lossy().into_owned())
            .collect()
    }

    /// Returns the keys of locks, without those that a crash or a foreign client may leave.
    pub fn leftovers(&self) -> Vec<String> {
        let left = self.ctl(&["get", "--prefix", "lock:", "--keys-only"]);
        let left = left
            .lines()
            .filter(|key| !key.is_empty() && !key.contains("::"));
        left.map(str::to_owned).collect()
    }
}

impl Member {
    /// Returns the URL at which the others reach it.
    fn peer_url(&self) -> String {
        let port = self.door.as_ref().map_or(self.peer, Proxy::port);
        format!("http://127.0.0.1:{port}")
    }
}

fn base64(text: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let chunk = |chunk: &[u8]| {
        let bytes = [0, 1, 2].map(|at| u32::from(chunk.get(at).copied().unwrap_or(0)));
        let number = bytes[0] << 16 | bytes[1] << 8 | bytes[2];
        let digit = move |at: u32| char::from(DIGITS[(number >> (18 - 6 * at) & 63) as usize]);
        let digits: String = (0..=chunk.len() as u32).map(digit).collect();
        digits + &"=".repeat(3 - chunk.len())
    };
    text.as_bytes().chunks(3).map(chunk).collect()
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let whole = self
            .members
            .iter()
            .all(|member| member.process.is_some() && !member.paused);
        let mut left = Vec::new();
        let clean = !whole
            || std::thread::panicking()
            || comes_true(Duration::from_secs(10), || {
                left = self.leftovers();
                left.is_empty()
            });
        for number in 0..self.len() {
            self.kill(number);
        }
        assert!(clean, "the test left keys behind: {left:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leader_that_is_parted_from_the_others_is_replaced() {
        let etcd = Etcd::three_behind_proxies();
        let leader = etcd.leader();
        etcd.part(leader);
        eventually(START, "another member leads", || etcd.leader() != leader);
        let mut health = etcd.command(&["endpoint", "health", "--command-timeout=1s"]);
        let health = health.args(["--endpoints", &etcd.url_of(leader)]);
        assert!(
            !health.output().unwrap().status.success(),
            "it has a leader"
        );
        etcd.rejoin();
        etcd.until_healthy();
    }
}
