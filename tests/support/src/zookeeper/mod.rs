//! ZooKeeper for a single test: one server, or an ensemble, on free ports.

pub mod client;

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::proxy::Proxy;
use crate::server::{free_port, give_back_port, signal, stop, temporary};
use crate::time::comes_true;
use client::Client;

/// The classes of ZooKeeper and of what it needs, as Debian installs them.
const CLASSES: &str = "/usr/share/java/zookeeper.jar";

/// Half the shortest session timeout.
pub const TICK: Duration = Duration::from_millis(500);

/// Killed when dropped, after a check that the test left no claims.
pub struct ZooKeeper {
    members: Vec<Member>,
    paused: Vec<bool>,
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

    /// Starts an ensemble, with further lines of its configuration.
    pub fn with(members: usize, options: &str) -> Self {
        Self::by(members, TICK, options)
    }

    /// Starts an ensemble with that tick.
    pub fn by(members: usize, tick: Duration, options: &str) -> Self {
        let ports: Vec<_> = (0..members)
            .map(|_| [(); 3].map(|()| free_port()))
            .collect();
        let list = ports.iter().zip(1..).map(|([_, follow, elect], number)| {
            format!("server.{number}=127.0.0.1:{follow}:{elect}\n")
        });
        let list: String = list.filter(|_| members > 1).collect();
        let members = ports.iter().zip(1..).map(|(ports, number)| {
            let directory = temporary("lock-zookeeper-");
            let path = directory.path();
            let (tick, client) = (tick.as_millis(), ports[0]);
            let configuration = format!(
                "tickTime={tick}\ninitLimit=20\nsyncLimit=4\ndataDir={}\nclientPort={client}\n\
                 clientPortAddress=127.0.0.1\nmaxClientCnxns=0\nmaxSessionTimeout=60000\n\
                 admin.enableServer=false\n{options}\n{list}",
                path.display(),
            );
            fs::write(path.join("zoo.cfg"), configuration).unwrap();
            fs::write(path.join("myid"), number.to_string()).unwrap();
            Member {
                process: None,
                directory,
                ports: *ports,
            }
        });
        let members: Vec<_> = members.collect();
        let mut zookeeper = Self {
            paused: vec![false; members.len()],
            members,
        };
        for member in 0..zookeeper.members.len() {
            zookeeper.members[member].spawn();
        }
        zookeeper.until_ready();
        zookeeper
    }

    /// Has the servers load their classes: on a busy machine their first requests take seconds.
    pub fn warm_up(&self) {
        for member in 0..self.members.len() {
            let mut client = Client::connect(self.port(member)).unwrap();
            for _ in 0..200 {
                let node = client
                    .create("/warm-", client::Kind::EphemeralNumbered)
                    .unwrap();
                client.children("/");
                client.delete(&node);
            }
        }
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
        assert!(left.is_empty(), "the test left claims behind: {left:?}");
    }
}
