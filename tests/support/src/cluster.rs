//! A Redis Cluster for a single test: three masters with a replica each.

use std::path::Path;
use std::time::Duration;

use redis::RedisResult;

use crate::certificates::Certificates;
use crate::server::{Server, free_port, tls_options};
use crate::time::{comes_true, eventually};

const SLOTS: u16 = 16384;
const MASTERS: usize = 3;
const NODES: usize = 2 * MASTERS;
const LONG: Duration = Duration::from_secs(30);

/// Killed when dropped, node by node, after a check that the test left no keys.
pub struct Cluster {
    nodes: Vec<Server>,
    password: Option<String>,
}

/// The configuration of a cluster.
#[derive(Default)]
pub struct Plan {
    node_timeout: Option<Duration>,
    password: Option<String>,
    certificates: Option<Certificates>,
    options: Vec<String>,
    without_replicas: bool,
    network: bool,
}

impl Plan {
    /// Sets how long a node must be silent to count as failed. By default, longer than any test: on a busy
    /// machine nodes may not run for a second.
    pub fn node_timeout(mut self, timeout: Duration) -> Self {
        self.node_timeout = Some(timeout);
        self
    }

    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// Makes the nodes accept only TLS.
    pub fn tls(mut self, certificates: Certificates) -> Self {
        self.certificates = Some(certificates);
        self
    }

    /// Starts only the three masters.
    pub fn without_replicas(mut self) -> Self {
        self.without_replicas = true;
        self
    }

    /// Puts a proxy before each node, also for the data of other nodes, but not for the cluster bus.
    pub fn network(mut self) -> Self {
        self.network = true;
        self
    }

    /// Sets an option of every node.
    pub fn option(mut self, name: &str, value: &str) -> Self {
        self.options.extend([format!("--{name}"), value.to_owned()]);
        self
    }

    pub fn start(self) -> Cluster {
        let nodes = std::thread::scope(|scope| {
            let count = if self.without_replicas {
                MASTERS
            } else {
                NODES
            };
            let nodes: Vec<_> = (0..count).map(|_| scope.spawn(|| self.node())).collect();
            let nodes = nodes.into_iter().map(|node| node.join().unwrap());
            nodes.collect()
        });
        let cluster = Cluster {
            nodes,
            password: self.password,
        };
        cluster.assemble();
        cluster
    }

    fn node(&self) -> Server {
        let timeout = self.node_timeout.unwrap_or(LONG);
        let timeout = timeout.as_millis().to_string();
        let bus = free_port().to_string();
        let options = |directory: &Path, port: u16| {
            let mut options: Vec<String> = [
                ["--cluster-enabled", "yes"],
                ["--cluster-port", &bus],
                ["--cluster-node-timeout", &timeout],
                ["--repl-diskless-sync-delay", "0"],
            ]
            .concat()
            .into_iter()
            .map(str::to_owned)
            .collect();
            if let Some(password) = &self.password {
                options.extend(["--masterauth".to_owned(), password.clone()]);
            }
            if let Some(certificates) = &self.certificates {
                options.extend(tls_options(certificates, directory, port));
                let both = ["--tls-cluster", "yes", "--tls-replication", "yes"];
                options.extend(both.map(str::to_owned));
            }
            if self.network {
                options.extend(["--cluster-announce-port".to_owned(), port.to_string()]);
            }
            options.extend_from_slice(&self.options);
            options
        };
        match self.network {
            true => Server::with_network(options),
            false => Server::with(self.password.as_deref(), options),
        }
    }
}

impl Cluster {
    pub fn start() -> Self {
        Self::plan().start()
    }

    pub fn plan() -> Plan {
        Plan::default()
    }

    pub fn nodes(&self) -> &[Server] {
        &self.nodes
    }

    pub fn nodes_mut(&mut self) -> &mut [Server] {
        &mut self.nodes
    }

    /// Returns a node. The first three are masters at first, with a third of the slots each; node `n + 3` is
    /// the replica of node `n`.
    pub fn node(&self, node: usize) -> &Server {
        &self.nodes[node]
    }

    pub fn node_mut(&mut self, node: usize) -> &mut Server {
        &mut self.nodes[node]
    }

    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the first of the slots that a master has at first.
    pub fn first_slot(master: usize) -> u16 {
        (usize::from(SLOTS) * master / MASTERS) as u16
    }

    /// Returns the URL with the addresses of all nodes.
    pub fn url(&self) -> String {
        let addresses = |node: &Server| format!("127.0.0.1:{}", node.port());
        let addresses: Vec<_> = self.nodes.iter().map(addresses).collect();
        format!("redis-cluster://{}", addresses.join(","))
    }

    pub fn slot(&self, key: &str) -> u16 {
        self.running()
            .ask(&["CLUSTER", "KEYSLOT", key])
            .expect("a slot")
    }

    /// Returns the running node that serves a slot, if all running nodes agree on it.
    pub fn master_of(&self, slot: u16) -> Option<usize> {
        let owner = |node: &Server| {
            let nodes: String = node.ask(&["CLUSTER", "NODES"]).ok()?;
            let line = nodes.lines().find(|line| serves(line, slot))?;
            Some(line.split(' ').next()?.to_owned())
        };
        let mut running = self.nodes.iter().filter(|node| node.runs());
        let id = owner(running.next()?)?;
        let is_it = |&node: &usize| self.runs(node) && self.id(node).is_ok_and(|it| it == id);
        let master = (0..self.node_count()).find(is_it)?;
        running
            .all(|node| owner(node).as_ref() == Some(&id))
            .then_some(master)
    }

    /// Lets the replica of a killed or paused master take over its slots, and waits until all running nodes
    /// know.
    #[track_caller]
    pub fn replace(&self, master: usize) {
        let replica = master + MASTERS;
        self.nodes[replica].query::<()>("CLUSTER FAILOVER TAKEOVER");
        self.until_replaced(master);
    }

    /// Waits until the replica has the slots of that master and all running nodes know.
    #[track_caller]
    pub fn until_replaced(&self, master: usize) {
        eventually("the replica takes over", || {
            let now = self.master_of(Self::first_slot(master));
            self.is_ok() && now == Some(master + MASTERS)
        });
    }

    /// Returns a running replica of a node.
    pub fn replica_of(&self, master: usize) -> Option<usize> {
        let port = self.nodes[master].port().to_string();
        let follows = |node: &Server| {
            let master = node.info("INFO replication", "master_port");
            node.runs() && master.as_ref() == Some(&port)
        };
        (0..self.node_count()).find(|&node| follows(&self.nodes[node]))
    }

    /// Returns `count` keys whose locks are on a node.
    pub fn keys_at(&self, node: usize, count: usize) -> Vec<String> {
        let keys = (0..).map(|n| format!("door:{n}"));
        let slot = |key: &String| self.slot(&format!("lock:{key}"));
        let there = keys.filter(|key| self.master_of(slot(key)) == Some(node));
        there.take(count).collect()
    }

    /// Returns `true` if all running nodes report that every slot is served.
    pub fn is_ok(&self) -> bool {
        let mut running = self.nodes.iter().filter(|node| node.runs());
        running.all(|node| node.info("CLUSTER INFO", "cluster_state").as_deref() == Some("ok"))
    }

    #[track_caller]
    pub fn until_ok(&self) {
        eventually("every slot is served", || self.is_ok());
    }

    /// Waits until every slot is served and every replica follows its master.
    #[track_caller]
    pub fn until_settled(&self) {
        eventually("replicas follow their masters", || self.is_settled());
    }

    /// Returns `true` if every slot is served and every replica follows its master.
    pub fn is_settled(&self) -> bool {
        let known = |node: &Server| {
            let nodes: Option<String> = node.ask(&["CLUSTER", "NODES"]).ok();
            nodes.is_some_and(|nodes| nodes.matches("slave").count() + MASTERS == self.node_count())
        };
        let follows = |node: &Server| {
            let linked = node.info("INFO replication", "master_link_status");
            linked.is_none_or(|linked| linked == "up")
        };
        let mut running = self.nodes.iter().filter(|node| node.runs());
        self.is_ok() && running.all(|node| known(node) && follows(node))
    }

    /// Returns `true` if the key exists on the node that serves it.
    pub fn exists(&self, key: &str) -> bool {
        let slot = self.slot(key);
        let master = self.master_of(slot);
        master.is_some_and(|master| self.nodes[master].exists(key))
    }

    /// Returns the number of processes in the server queue of a lock.
    pub fn waiting(&self, key: &str) -> usize {
        let waiting = || {
            let master = self.master_of(self.slot(&format!("lock:{key}")))?;
            let queue = format!("lock:::queue:{{*}}{key}");
            let queues: Vec<String> = self.nodes[master].ask(&["KEYS", &queue]).ok()?;
            self.nodes[master].ask(&["ZCARD", queues.first()?]).ok()
        };
        waiting().unwrap_or(0)
    }

    /// Waits until `processes` processes are in the server queue of a lock.
    #[track_caller]
    pub fn until_waiting(&self, key: &str, processes: usize) {
        let what = format!("{processes} wait for `{key}`");
        eventually(&what, || self.waiting(key) == processes);
    }

    /// Moves a slot with all its keys from one node to another, as resharding does: meanwhile keys are on
    /// either node, and each redirects requests to the other.
    #[track_caller]
    pub fn move_slot(&self, slot: u16, from: usize, to: usize) {
        self.begin_to_move(slot, from, to);
        self.end_to_move(slot, from, to);
    }

    /// Begins a move: the slot has two nodes from now on, and none of its keys has moved.
    #[track_caller]
    pub fn begin_to_move(&self, slot: u16, from: usize, to: usize) {
        self.try_begin_to_move(slot, from, to).unwrap();
    }

    pub fn try_begin_to_move(&self, slot: u16, from: usize, to: usize) -> RedisResult<()> {
        self.set_slot(to, slot, &["IMPORTING", &self.id(from)?])?;
        self.set_slot(from, slot, &["MIGRATING", &self.id(to)?])
    }

    /// Ends a move: moves the keys one by one, and then the slot itself.
    #[track_caller]
    pub fn end_to_move(&self, slot: u16, from: usize, to: usize) {
        self.try_end_to_move(slot, from, to).unwrap();
    }

    pub fn try_end_to_move(&self, slot: u16, from: usize, to: usize) -> RedisResult<()> {
        self.move_keys(slot, from, to)?;
        let id = self.id(to)?;
        for node in [to, from] {
            self.set_slot(node, slot, &["NODE", &id])?;
        }
        for node in
            (0..self.node_count()).filter(|node| ![from, to].contains(node) && self.runs(*node))
        {
            // A replica refuses, and learns it from the others.
            let _ = self.set_slot(node, slot, &["NODE", &id]);
        }
        Ok(())
    }

    /// Cancels a move: the slot stays on its node.
    pub fn give_up_to_move(&self, slot: u16, to: usize) -> RedisResult<()> {
        self.set_slot(to, slot, &["STABLE"])
    }

    fn move_keys(&self, slot: u16, from: usize, to: usize) -> RedisResult<()> {
        let slot = slot.to_string();
        let next = || -> RedisResult<Vec<String>> {
            self.nodes[from].ask(&["CLUSTER", "GETKEYSINSLOT", &slot, "1"])
        };
        while let Some(key) = next()?.first() {
            self.try_move_key(key, from, to)?;
        }
        Ok(())
    }

    /// Moves one key of a slot that is being moved.
    #[track_caller]
    pub fn move_key(&self, key: &str, from: usize, to: usize) {
        self.try_move_key(key, from, to).unwrap();
    }

    fn try_move_key(&self, key: &str, from: usize, to: usize) -> RedisResult<()> {
        let port = self.nodes[to].port().to_string();
        let mut command = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000"];
        if let Some(password) = &self.password {
            command.extend(["AUTH", password]);
        }
        command.extend(["KEYS", key]);
        self.nodes[from].ask(&command)
    }

    fn set_slot(&self, node: usize, slot: u16, state: &[&str]) -> RedisResult<()> {
        let slot = slot.to_string();
        self.nodes[node].ask(&[&["CLUSTER", "SETSLOT", &slot], state].concat())
    }

    fn runs(&self, node: usize) -> bool {
        self.nodes[node].runs()
    }

    fn running(&self) -> &Server {
        let mut nodes = self.nodes.iter();
        nodes.find(|node| node.runs()).expect("a node is running")
    }

    fn id(&self, node: usize) -> RedisResult<String> {
        self.nodes[node].try_query("CLUSTER MYID")
    }

    fn assemble(&self) {
        for (n, node) in self.nodes.iter().enumerate() {
            node.query::<()>(&format!("CLUSTER SET-CONFIG-EPOCH {}", n + 1));
            if n < MASTERS {
                let (first, last) = (Self::first_slot(n), Self::first_slot(n + 1) - 1);
                node.query::<()>(&format!("CLUSTER ADDSLOTSRANGE {first} {last}"));
            }
        }
        eventually("all nodes know one another", || self.have_met());
        for n in MASTERS..self.node_count() {
            let replicate = ["CLUSTER", "REPLICATE", &self.id(n - MASTERS).unwrap()];
            eventually("a replica knows its master", || {
                self.nodes[n].ask::<()>(&replicate).is_ok()
            });
        }
        self.until_settled();
    }

    /// Returns `true` if all nodes know one another; introduces those that do not.
    fn have_met(&self) -> bool {
        let ports = self.nodes.iter().map(|node| {
            let bus: Vec<String> = node.query("CONFIG GET cluster-port");
            format!("{} {}", node.port(), bus[1])
        });
        let ports: Vec<String> = ports.collect();
        let mut all = true;
        for (n, node) in self.nodes.iter().enumerate() {
            let known: String = node.query("CLUSTER NODES");
            for other in &ports[n + 1..] {
                let address = format!("127.0.0.1:{}", other.replace(' ', "@"));
                let line = known.lines().find(|line| line.contains(&address));
                if line.is_none() {
                    node.query::<()>(&format!("CLUSTER MEET 127.0.0.1 {other}"));
                }
                all &= line.is_some_and(|line| !line.contains("handshake"));
            }
            let known = known.lines().filter(|line| !line.contains("handshake"));
            all &= known.count() == self.node_count();
        }
        all
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let mut left = Vec::new();
        let clean = std::thread::panicking()
            || comes_true(|| {
                let running = self.nodes.iter().filter(|node| node.runs());
                left = running.flat_map(Server::leftovers).collect();
                left.is_empty()
            });
        self.nodes.iter_mut().for_each(Server::kill);
        assert!(clean, "the test left keys behind: {left:?}");
    }
}

/// Returns `true` if a line of `CLUSTER NODES` lists the slot.
fn serves(line: &str, slot: u16) -> bool {
    let ranges = line.split(' ').skip(8);
    let mut bounds = ranges.filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.parse().ok()?..=last.parse().ok()?)
    });
    bounds.any(|range| range.contains(&slot))
}
