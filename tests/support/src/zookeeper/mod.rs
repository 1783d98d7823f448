//! ZooKeeper for a single test: one server, or an ensemble, on free ports.

pub mod client;

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::certificates::Certificates;
use crate::proxy::Proxy;
use crate::server::{free_port, give_back_port, signal, stop, temporary};
use crate::time::comes_true;
use client::Client;

/// The classes of ZooKeeper and of what it needs, as Debian installs them. The archive of ZooKeeper names the others,
/// but not all that TLS needs.
const CLASSES: &str = "/usr/share/java/zookeeper.jar:/usr/share/java/netty-codec.jar:\
                       /usr/share/java/netty-resolver.jar";

/// Half the shortest session timeout.
pub const TICK: Duration = Duration::from_millis(500);

/// Killed when dropped, after a check that the test left no claims.
pub struct ZooKeeper {
    members: Vec<Member>,
    paused: Vec<bool>,
    /// Through which each server follows each other one that leads, if they can be parted.
    paths: Vec<Vec<Proxy>>,
    /// The port for TLS, and the folder of the certificate.
    secure: Option<(u16, TempDir)>,
}

struct Member {
    process: Option<Child>,
    directory: TempDir,
    /// The client port, and two for the other servers.
    ports: [u16; 3],
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
        let options = format!(
            "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n\
             secureClientPort={port}\nsecureClientPortAddress=127.0.0.1\n\
             ssl.keyStore.location={}\nssl.keyStore.type=PEM\nssl.clientAuth=none",
            file.display(),
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
        Self::start_at(&free_ports(members), tick, options, Vec::new())
    }

    /// Starts an ensemble whose servers can be parted from one another. They still hear of each other's votes.
    pub fn behind_proxies(members: usize, tick: Duration, options: &str) -> Self {
        let ports = free_ports(members);
        let to_all = || ports.iter().map(|[_, follow, _]| Proxy::to(*follow));
        let paths = (0..members).map(|_| to_all().collect()).collect();
        Self::start_at(&ports, tick, options, paths)
    }

    fn start_at(ports: &[[u16; 3]], tick: Duration, options: &str, paths: Vec<Vec<Proxy>>) -> Self {
        let members = ports.iter().enumerate().map(|(member, own)| {
            let paths = paths.get(member);
            let server = |(other, [_, follow, elect]): (usize, &[u16; 3])| {
                let path = paths.filter(|_| other != member);
                let follow = path.map_or(*follow, |paths| paths[other].port());
                format!("server.{}=127.0.0.1:{follow}:{elect}\n", other + 1)
            };
            let list: String = match ports.len() {
                1 => String::new(),
                _ => ports.iter().enumerate().map(server).collect(),
            };
            let directory = temporary("lock-zookeeper-");
            let path = directory.path();
            let (tick, client) = (tick.as_millis(), own[0]);
            let configuration = format!(
                "tickTime={tick}\ninitLimit=20\nsyncLimit=4\ndataDir={}\nclientPort={client}\n\
                 clientPortAddress=127.0.0.1\nmaxClientCnxns=0\nmaxSessionTimeout=60000\n\
                 admin.enableServer=false\n{options}\n{list}",
                path.display(),
            );
            fs::write(path.join("zoo.cfg"), configuration).unwrap();
            fs::write(path.join("myid"), (member + 1).to_string()).unwrap();
            Member {
                process: None,
                directory,
                ports: *own,
            }
        });
        let members: Vec<_> = members.collect();
        let mut zookeeper = Self {
            paused: vec![false; members.len()],
            members,
            paths,
            secure: None,
        };
        for member in 0..zookeeper.members.len() {
            zookeeper.members[member].spawn();
        }
        zookeeper.until_complete();
        zookeeper.until_ready();
        zookeeper
    }

    /// Waits until a leader has given all others what it has.
    fn until_complete(&self) {
        let followers = format!("zk_synced_followers\t{}", self.members.len() - 1);
        let leads = |member: usize| {
            let report = Client::ask(self.port(member), "mntr").unwrap_or_default();
            report.contains(&followers)
        };
        let all = 0..self.members.len();
        if all.len() > 1 {
            comes_true(Duration::from_secs(30), || all.clone().any(leads));
        }
    }

    /// Has the servers load their classes: on a busy machine their first requests take seconds.
    ///
    /// A follower that was started while others wrote may never answer some requests, or answer them wrongly: it has
    /// missed a commit. It is started again.
    pub fn warm_up(&mut self) {
        for member in 0..self.members.len() {
            let is_warm = (0..4).any(|_| {
                let warm = Self::warm(self.port(member)).is_ok();
                if !warm {
                    self.restart(member);
                }
                warm
            });
            assert!(
                is_warm,
                "ZooKeeper answers:\n{}",
                self.members[member].log()
            );
        }
    }

    fn warm(port: u16) -> std::io::Result<()> {
        let mut client = Client::connect(port)?;
        for _ in 0..200 {
            let node = client.create("/warm-", client::Kind::EphemeralNumbered)?;
            client.children("/");
            client.delete(&node);
        }
        Ok(())
    }

    /// Waits until every server that runs serves clients.
    pub fn until_ready(&mut self) {
        for member in 0..self.members.len() {
            if self.members[member].process.is_none() || self.paused[member] {
                continue;
            }
            let port = self.port(member);
            let serves = comes_true(Duration::from_secs(60), || Client::connect(port).is_ok());
            assert!(
                serves,
                "ZooKeeper does not start:\n{}",
                self.members[member].log()
            );
        }
    }

    pub fn port(&self, member: usize) -> u16 {
        self.members[member].ports[0]
    }

    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// Returns the URL of all servers.
    pub fn url(&self) -> String {
        let hosts: Vec<_> = self
            .members
            .iter()
            .map(|it| format!("127.0.0.1:{}", it.ports[0]))
            .collect();
        format!("zookeeper://{}", hosts.join(","))
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
        let runs =
            |member: &usize| self.members[*member].process.is_some() && !self.paused[*member];
        let mut running = (0..self.members.len()).filter(runs);
        running
            .find_map(|member| Client::connect(self.port(member)).ok())
            .expect("a server runs")
    }

    /// Returns the server that leads: with a single one, that one.
    pub fn leader(&self) -> usize {
        let mut found = None;
        let elected = comes_true(Duration::from_secs(30), || {
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
        let runs =
            |member: &usize| self.members[*member].process.is_some() && !self.paused[*member];
        (0..self.members.len()).filter(runs).find(leads)
    }

    /// Kills a server at once, as a crash does.
    pub fn kill(&mut self, member: usize) {
        self.members[member].kill();
        self.paused[member] = false;
    }

    /// Starts a server that was killed.
    pub fn restart(&mut self, member: usize) {
        self.kill(member);
        self.members[member].spawn();
        self.until_ready();
    }

    /// Freezes a server: it keeps its connections and answers nothing.
    pub fn pause(&mut self, member: usize) {
        stop(self.members[member].pid());
        self.paused[member] = true;
    }

    pub fn resume(&mut self, member: usize) {
        signal(self.members[member].pid(), "CONT");
        self.paused[member] = false;
    }

    /// Parts a server from the others, which clients still reach.
    pub fn part(&self, member: usize) {
        for (from, paths) in self.paths.iter().enumerate() {
            let parts = paths.iter().enumerate();
            let parted = parts.filter(|(to, _)| from == member || *to == member);
            parted.for_each(|(_, path)| path.black_hole());
        }
    }

    /// Ends the parting of servers: what was held arrives late.
    pub fn rejoin(&self) {
        self.paths.iter().flatten().for_each(Proxy::heal);
    }

    /// Deletes all claims.
    pub fn leave_claims(&self) {
        let mut client = self.client();
        for claim in self.claims() {
            client.delete(&claim);
        }
    }

    /// Returns the paths of all claims.
    pub fn claims(&self) -> Vec<String> {
        let all = self.client().all_below("/");
        all.into_iter()
            .filter(|path| path.contains("-lock-"))
            .collect()
    }
}

/// Returns the client port of each server, and its two for the others.
fn free_ports(members: usize) -> Vec<[u16; 3]> {
    let ports = |_| [(); 3].map(|()| free_port());
    (0..members).map(ports).collect()
}

impl Member {
    fn spawn(&mut self) {
        let directory: &Path = self.directory.path();
        let log = fs::File::create(directory.join("log")).unwrap();
        let mut command = Command::new("java");
        command
            .args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx192m"])
            .arg("-Dznode.container.checkIntervalMs=1000")
            .arg("-Dzookeeper.4lw.commands.whitelist=*")
            .args([
                "-cp",
                CLASSES,
                "org.apache.zookeeper.server.quorum.QuorumPeerMain",
            ])
            .arg(directory.join("zoo.cfg"))
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        let process = command
            .spawn()
            .expect("`java` is installed, as by `apt-get install zookeeper`");
        self.process = Some(process);
    }

    fn pid(&self) -> u32 {
        self.process.as_ref().expect("the server runs").id()
    }

    fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }
}

impl Drop for ZooKeeper {
    fn drop(&mut self) {
        let all_run = |zookeeper: &Self| {
            let runs = zookeeper
                .members
                .iter()
                .all(|member| member.process.is_some());
            runs && !zookeeper.paused.contains(&true)
        };
        let mut left = Vec::new();
        if all_run(self) && !std::thread::panicking() {
            comes_true(Duration::from_secs(15), || {
                left = self.claims();
                left.is_empty()
            });
        }
        for member in &mut self.members {
            member.kill();
            member.ports.into_iter().for_each(give_back_port);
        }
        if let Some((port, _)) = &self.secure {
            give_back_port(*port);
        }
        assert!(left.is_empty(), "the test left claims behind: {left:?}");
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
        zookeeper.part(leader);
        // It still hears of the votes, so the others may elect it again, and again in vain.
        eventually(millis(30_000), "it leads no more", || {
            zookeeper.leader_now() != Some(leader)
        });
        zookeeper.rejoin();
        zookeeper.until_ready();
    }
}
