//! ZooKeeper for a single test: one server, or an ensemble, on free ports.

pub mod client;

use std::fs::{self, File};
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::certificates::Certificates;
use crate::members::{Member, Members, Replicated};
use crate::proxy::Proxy;
use crate::server::{free_port, give_back_port, on_disk, temporary};
use crate::time::comes_true;
use client::{Client, Kind};

/// The classes of ZooKeeper and of what it needs, as Debian installs them. The archive of ZooKeeper names the
/// others, but not all that TLS needs.
const CLASSES: &str = "/usr/share/java/zookeeper.jar:/usr/share/java/netty-codec.jar:\
                       /usr/share/java/netty-resolver.jar";

/// Where servers keep their data, and the options of Java.
struct Machine {
    directory: fn(&str) -> TempDir,
    options: &'static [&'static str],
}

/// Starts soon.
const LIGHT: Machine = Machine {
    directory: temporary,
    options: &[
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        "-Xmx192m",
        "-Dznode.container.checkIntervalMs=1000",
    ],
};

const INSTALLED: Machine = Machine {
    directory: on_disk,
    options: &["-Xmx512m"],
};

/// Half the shortest session timeout.
pub const TICK: Duration = Duration::from_millis(500);

/// Killed when dropped, after a check that the test left no claims.
pub struct ZooKeeper {
    members: Members,
    directories: Vec<TempDir>,
    /// The port for TLS, and the folder of the certificate.
    secure: Option<(u16, TempDir)>,
}

impl ZooKeeper {
    /// Starts a single server.
    pub fn start() -> Self {
        Self::with(1, "")
    }

    /// Starts a single server that also serves clients with TLS.
    pub fn with_tls(certificates: &Certificates) -> Self {
        let (port, folder) = (free_port(), temporary("lock-zookeeper-tls-"));
        let file = folder.path().join("server.pem");
        fs::write(
            &file,
            [&*certificates.key, &certificates.certificate].concat(),
        )
        .unwrap();
        let authority = folder.path().join("authority.pem");
        fs::write(&authority, &certificates.authority).unwrap();
        let options = format!(
            "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n\
             secureClientPort={port}\nsecureClientPortAddress=127.0.0.1\n\
             ssl.keyStore.location={}\nssl.keyStore.type=PEM\nssl.clientAuth={}",
            file.display(),
            match certificates.are_demanded {
                true => format!(
                    "need\nssl.trustStore.location={}\nssl.trustStore.type=PEM",
                    authority.display()
                ),
                false => "none".to_owned(),
            },
        );
        let mut zookeeper = Self::with(1, &options);
        zookeeper.secure = Some((port, folder));
        zookeeper
    }

    /// Starts an ensemble, with further lines of its configuration.
    pub fn with(members: usize, options: &str) -> Self {
        Self::by(members, TICK, options)
    }

    /// Starts an ensemble with that tick.
    pub fn by(members: usize, tick: Duration, options: &str) -> Self {
        Self::start_at(&free_ports(members), &LIGHT, tick, options, Vec::new())
    }

    /// Starts an ensemble to be measured: on a disk, and with the settings of an installed one.
    pub fn as_installed(members: usize) -> Self {
        let (ports, tick) = (free_ports(members), Duration::from_secs(2));
        Self::start_at(&ports, &INSTALLED, tick, "syncLimit=5", Vec::new())
    }

    /// Starts an ensemble whose servers can be parted from one another. They still hear of each other's
    /// votes.
    pub fn behind_proxies(members: usize, tick: Duration, options: &str) -> Self {
        let ports = free_ports(members);
        let to_all = |_| ports.iter().map(|[_, follow, _]| Proxy::to(*follow));
        let paths = (0..members).flat_map(to_all).collect();
        Self::start_at(&ports, &LIGHT, tick, options, paths)
    }

    /// The links are those through which each server follows each other one that leads, if they can be
    /// parted.
    fn start_at(
        ports: &[[u16; 3]],
        machine: &Machine,
        tick: Duration,
        options: &str,
        links: Vec<Proxy>,
    ) -> Self {
        let directory = |_| (machine.directory)("lock-zookeeper-");
        let directories: Vec<_> = ports.iter().map(directory).collect();
        let member = |(member, own): (usize, &[u16; 3])| {
            let server = |(other, [_, follow, elect]): (usize, &[u16; 3])| {
                let link = links.get(member * ports.len() + other);
                let link = link.filter(|_| other != member);
                let follow = link.map_or(*follow, Proxy::port);
                format!("server.{}=127.0.0.1:{follow}:{elect}\n", other + 1)
            };
            let list: String = match ports.len() {
                1 => String::new(),
                _ => ports.iter().enumerate().map(server).collect(),
            };
            let path = directories[member].path();
            let (tick, client) = (tick.as_millis(), own[0]);
            let configuration = format!(
                "tickTime={tick}\ninitLimit=20\nsyncLimit=4\ndataDir={}\nclientPort={client}\n\
                 clientPortAddress=127.0.0.1\nmaxClientCnxns=0\nmaxSessionTimeout=60000\n\
                 admin.enableServer=false\n{options}\n{list}",
                path.display(),
            );
            fs::write(path.join("zoo.cfg"), configuration).unwrap();
            fs::write(path.join("myid"), (member + 1).to_string()).unwrap();
            Member::new(own, command(path, machine.options))
        };
        let members = ports.iter().enumerate().map(member).collect();
        let mut zookeeper = Self {
            members: Members::start(members, links),
            directories,
            secure: None,
        };
        zookeeper.until_complete();
        zookeeper.until_ready();
        zookeeper
    }

    /// Waits until a leader has given all others what it has.
    fn until_complete(&self) {
        let followers = format!("zk_synced_followers\t{}", self.size() - 1);
        let leads = |member: usize| {
            let report = Client::ask(self.port(member), "mntr").unwrap_or_default();
            report.contains(&followers)
        };
        let all = 0..self.size();
        if all.len() > 1 {
            comes_true(|| all.clone().any(leads));
        }
    }

    /// Has the servers load their classes: on a busy machine their first requests take seconds.
    ///
    /// A follower that was started while others wrote may never answer some requests, or answer them wrongly:
    /// it has missed a commit. It is started again.
    pub fn warm_up(&mut self) {
        for member in 0..self.size() {
            let is_warm = (0..4).any(|_| {
                let warm = Self::warm(self.port(member)).is_ok();
                if !warm {
                    self.start_again(member);
                }
                warm
            });
            assert!(is_warm, "ZooKeeper answers:\n{}", self.log(member));
        }
    }

    fn warm(port: u16) -> std::io::Result<()> {
        let mut client = Client::connect(port)?;
        for _ in 0..200 {
            let node = client.create("/warm-", Kind::EphemeralNumbered)?;
            client.children("/");
            client.delete(&node);
        }
        Ok(())
    }

    /// Waits until every server that runs serves clients.
    pub fn until_ready(&mut self) {
        for member in self.serving() {
            let port = self.port(member);
            // Several at once need long to load their classes.
            let serves = (0..4).any(|_| comes_true(|| Client::connect(port).is_ok()));
            assert!(serves, "ZooKeeper does not start:\n{}", self.log(member));
        }
    }

    fn log(&self, member: usize) -> String {
        let file = self.directories[member].path().join("log");
        fs::read_to_string(file).unwrap_or_default()
    }

    /// Returns the URL of all servers.
    pub fn url(&self) -> String {
        format!("{}://{}", Self::SCHEME, self.hosts())
    }

    /// Returns the URL for TLS.
    pub fn secure_url(&self) -> String {
        let (port, _) = self.secure.as_ref().expect("it has a certificate");
        format!("zookeepers://127.0.0.1:{port}")
    }

    /// Returns the URL of one server.
    pub fn url_of(&self, member: usize) -> String {
        format!("zookeeper://127.0.0.1:{}", self.port(member))
    }

    /// Returns a proxy in front of one server.
    pub fn proxy(&self, member: usize) -> Proxy {
        Proxy::to(self.port(member))
    }

    /// Connects as another client, to the first server that runs.
    pub fn client(&self) -> Client {
        self.serving()
            .find_map(|member| Client::connect(self.port(member)).ok())
            .expect("a server runs")
    }

    /// Returns the server that leads: with a single one, that one.
    pub fn leader(&self) -> usize {
        let mut found = None;
        let elected = comes_true(|| {
            found = self.leader_now();
            found.is_some()
        });
        assert!(elected, "no server leads");
        found.unwrap_or_default()
    }

    /// Returns the server that leads now, if there is one.
    pub fn leader_now(&self) -> Option<usize> {
        let leads = |member: &usize| {
            let mode = Client::ask(self.port(*member), "srvr").unwrap_or_default();
            mode.contains("Mode: leader") || mode.contains("Mode: standalone")
        };
        self.serving().find(leads)
    }

    /// Returns the paths of all claims.
    pub fn claims(&self) -> Vec<String> {
        let all = self.client().all_below("/");
        all.into_iter()
            .filter(|path| path.contains("-lock-"))
            .collect()
    }
}

impl Replicated for ZooKeeper {
    const SCHEME: &str = "zookeeper";

    fn start_again(&mut self, member: usize) {
        self.kill(member);
        self.begin_restart(member);
        self.until_ready();
    }

    fn part_from_others(&self, member: usize) {
        for (at, link) in self.links.iter().enumerate() {
            if at / self.size() == member || at % self.size() == member {
                link.black_hole();
            }
        }
    }

    fn all_claims(&self) -> Vec<String> {
        self.claims()
    }

    fn delete_all_claims(&self) {
        let mut client = self.client();
        for claim in self.claims() {
            client.delete(&claim);
        }
    }

    fn delete_line(&self, name: &str) {
        let mut client = self.client();
        for claim in client.line(&path_of(name)) {
            client.delete(&claim);
        }
    }

    /// The thief's claim is the only one then.
    fn steal_line(&self, name: &str) {
        let (mut client, lock) = (self.client(), path_of(name));
        // First, since servers remove a lock's node without claims.
        let created = client.create(&format!("{lock}/thief-lock-"), Kind::PersistentNumbered);
        let thief = created.expect("the claim is created");
        for claim in client.line(&lock) {
            if claim != thief {
                client.delete(&claim);
            }
        }
    }
}

/// Returns the path of the lock of this name, whose prefix is a folder.
pub fn path_of(name: &str) -> String {
    format!("/{}", name.replacen(':', "/", 1))
}

/// Returns the client port of each server, and its two for the others.
fn free_ports(members: usize) -> Vec<[u16; 3]> {
    let ports = |_| [(); 3].map(|()| free_port());
    (0..members).map(ports).collect()
}

/// Returns the program of a server whose configuration is in that directory.
fn command(directory: &Path, options: &[&str]) -> Command {
    let log = File::create(directory.join("log")).unwrap();
    let mut command = Command::new("java");
    command
        .args(options)
        .arg("-Dzookeeper.4lw.commands.whitelist=*")
        .args(["-cp", CLASSES])
        .arg("org.apache.zookeeper.server.quorum.QuorumPeerMain")
        .arg(directory.join("zoo.cfg"))
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log);
    command
}

impl Deref for ZooKeeper {
    type Target = Members;

    fn deref(&self) -> &Members {
        &self.members
    }
}

impl DerefMut for ZooKeeper {
    fn deref_mut(&mut self) -> &mut Members {
        &mut self.members
    }
}

impl Drop for ZooKeeper {
    fn drop(&mut self) {
        if let Some((port, _)) = &self.secure {
            give_back_port(*port);
        }
        self.check();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::{eventually, millis};

    #[test]
    fn leader_that_is_parted_from_the_others_leads_no_more() {
        let mut zookeeper = ZooKeeper::behind_proxies(3, millis(100), "");
        let leader = zookeeper.leader();
        zookeeper.part_from_others(leader);
        // It still hears of the votes, so the others may elect it again, and again in vain.
        eventually("it leads no more", || {
            zookeeper.leader_now() != Some(leader)
        });
        zookeeper.rejoin();
        zookeeper.until_ready();
    }
}
