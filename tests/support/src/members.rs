//! The processes of etcd or ZooKeeper: one server, or several that elect a leader.

use std::collections::HashSet;
use std::ops::DerefMut;
use std::process::{Child, Command};

use crate::proxy::Proxy;
use crate::server::{give_back_port, signal, stop};
use crate::time::comes_true;

/// Servers of which a majority has every lock. Tests use them as [`Servers`](crate::servers::Servers).
pub trait Replicated: DerefMut<Target = Members> + Send + Sync + 'static {
    /// The scheme of their URLs.
    const SCHEME: &str;

    /// Starts a server that was killed, with its data, and waits until it serves clients.
    fn start_again(&mut self, number: usize);

    /// Parts a server from the others, which clients still reach.
    fn part_from_others(&self, number: usize);

    /// Returns the claims on all locks.
    fn all_claims(&self) -> Vec<String>;

    fn delete_all_claims(&self);

    /// Deletes all claims on the lock of this name, as a foreign client would.
    fn delete_line(&self, name: &str);

    /// Overwrites the lock of this name, as a foreign client would.
    fn steal_line(&self, name: &str);

    /// Fails if a test has left claims behind, unless some servers do not run.
    fn check(&self) {
        if std::thread::panicking() || self.serving().count() < self.size() {
            return;
        }
        let mut left = Vec::new();
        comes_true(|| {
            left = self.all_claims();
            left.is_empty()
        });
        assert!(left.is_empty(), "the test left claims behind: {left:?}");
    }
}

/// The processes, from number 0 on. Killed when dropped.
pub struct Members {
    members: Vec<Member>,
    /// Through which the servers reach one another, if they can be parted.
    pub(crate) links: Vec<Proxy>,
}

pub(crate) struct Member {
    /// All that it uses, the one for clients first.
    ports: Vec<u16>,
    command: Command,
    process: Option<Child>,
    paused: bool,
}

impl Member {
    pub(crate) fn new(ports: &[u16], command: Command) -> Self {
        let ports = ports.to_vec();
        Self {
            ports,
            command,
            process: None,
            paused: false,
        }
    }
}

impl Members {
    pub(crate) fn start(members: Vec<Member>, links: Vec<Proxy>) -> Self {
        let mut members = Self { members, links };
        (0..members.size()).for_each(|number| members.begin_restart(number));
        members
    }

    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// Returns the port for clients.
    pub fn port(&self, number: usize) -> u16 {
        self.members[number].ports[0]
    }

    /// Returns all addresses for clients, with commas between.
    pub fn hosts(&self) -> String {
        let ports = (0..self.size()).map(|number| self.port(number));
        let hosts: Vec<_> = ports.map(|port| format!("127.0.0.1:{port}")).collect();
        hosts.join(",")
    }

    /// Returns the servers that are neither killed nor frozen.
    pub(crate) fn serving(&self) -> impl Iterator<Item = usize> {
        let members = self.members.iter().enumerate();
        let serves = |member: &Member| member.process.is_some() && !member.paused;
        members.filter_map(move |(number, member)| serves(member).then_some(number))
    }

    /// Returns `true` if the process has ended by itself.
    pub(crate) fn has_ended(&mut self, number: usize) -> bool {
        let process = self.members[number].process.as_mut();
        process.is_some_and(|process| !matches!(process.try_wait(), Ok(None)))
    }

    /// Freezes a server: it keeps its connections and answers nothing.
    pub fn pause(&mut self, number: usize) {
        stop(self.id(number));
        self.members[number].paused = true;
    }

    pub fn resume(&mut self, number: usize) {
        signal(self.id(number), "CONT");
        self.members[number].paused = false;
    }

    fn id(&self, number: usize) -> u32 {
        let process = self.members[number].process.as_ref();
        process.expect("the server runs").id()
    }

    /// Kills a server at once, as a crash does.
    pub fn kill(&mut self, number: usize) {
        let member = &mut self.members[number];
        member.paused = false;
        if let Some(mut process) = member.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Starts a server that was killed, with its data, and does not wait for it.
    pub fn begin_restart(&mut self, number: usize) {
        let member = &mut self.members[number];
        let process = member.command.spawn();
        let program = member.command.get_program().display();
        let process = process.unwrap_or_else(|error| panic!("`{program}` is installed: {error}"));
        member.process = Some(process);
    }

    /// Ends the parting of servers: what was held arrives late.
    pub fn rejoin(&self) {
        self.links.iter().for_each(Proxy::heal);
    }

    /// Returns the connections of clients to a server, each with ` addr=127.0.0.1:` and its port. Linux only.
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
            // It may also be a client of its own.
            let is_own = own.contains(&format!("socket:[{inode}]"));
            (port(remote)? == self.port(number) && !is_own).then(|| port(local))?
        };
        let clients = table.lines().filter_map(client);
        clients
            .map(|port| format!("client addr=127.0.0.1:{port} "))
            .collect()
    }

    /// Returns the sockets of a server's process.
    fn own_sockets(&self, number: usize) -> HashSet<String> {
        let process = self.members[number].process.as_ref().map(Child::id);
        let files = process.and_then(|id| std::fs::read_dir(format!("/proc/{id}/fd")).ok());
        let links = files.into_iter().flatten().flatten();
        let links = links.filter_map(|file| std::fs::read_link(file.path()).ok());
        links
            .map(|link| link.to_string_lossy().into_owned())
            .collect()
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        for number in 0..self.size() {
            self.kill(number);
            let ports = &self.members[number].ports;
            ports.iter().copied().for_each(give_back_port);
        }
    }
}
