//! A master, two replicas and three Sentinels that monitor them.

use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use crate::certificates::Certificates;
use crate::server::{Server, field, tls_options};
use crate::time::eventually_within;

/// The name of the master.
pub const NAME: &str = "mymaster";

/// The longest time that a failover may take on a busy machine once a Sentinel has noticed. A Sentinel that
/// could not run for 2 s decides nothing for the next 30 s.
const FAILOVER: Duration = Duration::from_secs(90);

/// Longer than any master is silent, unless a test kills or freezes it.
const NEVER: Duration = Duration::from_secs(60);

/// The configuration of the servers.
pub struct Setup<'a> {
    /// How long the master must be silent to count as down: half a second after
    /// [`kill_master`](Sentinels::kill_master), unless a test sets it.
    pub down_after: Duration,
    pub password: Option<&'a str>,
    pub sentinel_password: Option<&'a str>,
    /// If set, all servers and clients use TLS.
    pub certificates: Option<&'a Certificates>,
    /// Puts a proxy before each server, also for the other servers and the Sentinels.
    pub network: bool,
    /// Additional options of each server.
    pub options: Vec<String>,
}

impl Default for Setup<'_> {
    fn default() -> Self {
        Self {
            down_after: NEVER,
            password: None,
            sentinel_password: None,
            certificates: None,
            network: false,
            options: Vec::new(),
        }
    }
}

/// Servers are numbered: the master is 0 at first. All are killed when dropped, and the master must have no
/// lock left.
pub struct Sentinels {
    servers: Vec<Server>,
    sentinels: Vec<Server>,
}

impl Sentinels {
    pub const SERVERS: Range<usize> = 0..3;

    pub fn start() -> Self {
        Self::with(&Setup::default())
    }

    pub fn with(setup: &Setup) -> Self {
        let master = setup.server(None);
        let replica = || setup.server(Some(master.port()));
        let (second, third) = (replica(), replica());
        let sentinels = (0..3).map(|_| setup.sentinel(master.port())).collect();
        let all = Self {
            servers: vec![master, second, third],
            sentinels,
        };
        all.until_settled();
        all
    }

    /// Returns the URL for clients.
    pub fn url(&self) -> String {
        self.url_with("redis-sentinel://")
    }

    /// Returns the URL with another scheme, or with credentials.
    pub fn url_with(&self, beginning: &str) -> String {
        let host = |sentinel: &Server| format!("127.0.0.1:{}", sentinel.port());
        let hosts: Vec<_> = self.sentinels.iter().map(host).collect();
        format!("{beginning}{}/{NAME}/0", hosts.join(","))
    }

    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    pub fn servers_mut(&mut self) -> &mut [Server] {
        &mut self.servers
    }

    pub fn server(&self, number: usize) -> &Server {
        &self.servers[number]
    }

    pub fn server_mut(&mut self, number: usize) -> &mut Server {
        &mut self.servers[number]
    }

    pub fn sentinel_ports(&self) -> impl Iterator<Item = u16> {
        self.sentinels.iter().map(Server::port)
    }

    pub fn sentinel(&self, number: usize) -> &Server {
        &self.sentinels[number]
    }

    pub fn sentinel_mut(&mut self, number: usize) -> &mut Server {
        &mut self.sentinels[number]
    }

    /// Waits until all running Sentinels agree on the master, and returns its number.
    #[track_caller]
    pub fn master(&self) -> usize {
        let mut master = None;
        eventually_within(FAILOVER, "the Sentinels agree on the master", || {
            master = self.agreed();
            master.is_some()
        });
        master.unwrap()
    }

    /// Returns the servers that are not the master.
    pub fn replicas(&self) -> Vec<usize> {
        let master = self.master();
        Self::SERVERS.filter(|number| *number != master).collect()
    }

    /// Kills the master and returns its number. Another server takes over shortly.
    pub fn kill_master(&mut self) -> usize {
        let master = self.master();
        self.servers[master].kill();
        self.set_down_after(Duration::from_millis(500));
        master
    }

    /// Freezes the master: it keeps its connections and replies to nothing. Another server takes over
    /// shortly.
    pub fn pause_master(&mut self) -> usize {
        let master = self.master();
        self.servers[master].pause();
        self.set_down_after(Duration::from_millis(500));
        master
    }

    /// Sets how long the master must be silent to count as down. Outside of failovers it is long, so that a
    /// server that a busy machine keeps from running is not replaced.
    fn set_down_after(&self, silence: Duration) {
        let silence = silence.as_millis();
        for sentinel in self.running() {
            sentinel.query::<()>(&format!(
                "SENTINEL SET {NAME} down-after-milliseconds {silence}"
            ));
        }
    }

    pub fn resume(&mut self, number: usize) {
        self.servers[number].resume();
    }

    /// Restarts a killed server: empty, as a master, until the Sentinels make it a replica.
    pub fn restart(&mut self, number: usize) {
        self.servers[number].restart();
    }

    /// Makes another server the master although the present one works, and returns its number.
    #[track_caller]
    pub fn failover(&self) -> usize {
        let from = self.master();
        eventually_within(FAILOVER, "a Sentinel begins a failover", || {
            self.begin_failover()
        });
        self.until_failed_over(from)
    }

    /// Orders a failover. Returns `true` if a Sentinel begins it.
    pub fn begin_failover(&self) -> bool {
        let sentinel = self.running().next().expect("a Sentinel");
        let failover = format!("SENTINEL FAILOVER {NAME}");
        sentinel.try_query::<()>(&failover).is_ok()
    }

    /// Waits until a server other than `from` is the master and all Sentinels know it, and returns its
    /// number.
    #[track_caller]
    pub fn until_failed_over(&self, from: usize) -> usize {
        let mut master = None;
        eventually_within(FAILOVER, "another server is the master", || {
            master = self.agreed().filter(|master| *master != from);
            master.is_some()
        });
        self.set_down_after(NEVER);
        master.unwrap()
    }

    /// Waits until every running server is the master or its replica, and all running Sentinels know all of
    /// them.
    #[track_caller]
    pub fn until_settled(&self) {
        eventually_within(
            FAILOVER,
            "all servers and Sentinels know each other",
            || self.is_settled(),
        );
    }

    /// Waits until `replicas` replicas have everything that the master has written so far. Returns `true` if
    /// that happened in time.
    pub fn until_replicated(&self, replicas: usize) -> bool {
        self.servers[self.master()].until_replicated(replicas)
    }

    fn running(&self) -> impl Iterator<Item = &Server> {
        self.sentinels.iter().filter(|sentinel| sentinel.runs())
    }

    /// Returns the master that all running Sentinels name, if that server considers itself the master.
    pub fn agreed(&self) -> Option<usize> {
        let mut named: Option<usize> = None;
        for sentinel in self.running() {
            let ask = format!("SENTINEL GET-MASTER-ADDR-BY-NAME {NAME}");
            let (_, port): (String, u16) = sentinel.try_query(&ask).ok()?;
            let number = self.servers.iter().position(|s| s.port() == port)?;
            if *named.get_or_insert(number) != number {
                return None;
            }
        }
        let master = &self.servers[named?];
        if master.runs() && !is_master(master) {
            return None;
        }
        named
    }

    pub fn is_settled(&self) -> bool {
        let Some(master) = self.agreed() else {
            return false;
        };
        let port = self.servers[master].port().to_string();
        let replicas = Self::SERVERS.filter(|number| *number != master);
        let replicas = replicas.map(|number| &self.servers[number]);
        let follow = replicas.filter(|server| server.runs()).all(|server| {
            let information = server.try_query::<String>("INFO replication");
            information.is_ok_and(|information| {
                field(&information, "master_port") == Some(&port)
                    && field(&information, "master_link_status") == Some("up")
            })
        });
        let healthy = |sentinel: &Server| {
            let about: Vec<String> = sentinel
                .try_query(&format!("SENTINEL MASTER {NAME}"))
                .unwrap_or_default();
            let says = |name: &str, value: &str| {
                about
                    .chunks_exact(2)
                    .any(|pair| pair[0] == name && pair[1] == value)
            };
            says("flags", "master") && says("num-slaves", "2") && says("num-other-sentinels", "2")
        };
        follow && self.running().all(healthy)
    }
}

impl Setup<'_> {
    fn server(&self, master: Option<u16>) -> Server {
        let options = |directory: &Path, port: u16| {
            let mut options = self.transport(directory, port);
            options.extend_from_slice(&self.options);
            let mut set = |option: &str, value: &str| {
                options.extend([format!("--{option}"), value.to_owned()]);
            };
            // Let replicas synchronize without delay.
            set("repl-diskless-sync-delay", "0");
            set("repl-ping-replica-period", "1");
            if let Some(password) = self.password {
                set("masterauth", password);
            }
            if let Some(master) = master {
                set("replicaof", &format!("127.0.0.1 {master}"));
            }
            if self.network {
                set("replica-announce-port", &port.to_string());
            }
            options
        };
        match self.network {
            true => Server::with_network(options),
            false => Server::with(self.password, options),
        }
    }

    fn sentinel(&self, master: u16) -> Server {
        let mut settings = format!(
            "sentinel monitor {NAME} 127.0.0.1 {master} 2\n\
             sentinel down-after-milliseconds {NAME} {}\n\
             sentinel failover-timeout {NAME} 5000\n\
             sentinel parallel-syncs {NAME} 2\n",
            self.down_after.as_millis()
        );
        if let Some(password) = self.password {
            settings += &format!("sentinel auth-pass {NAME} {password}\n");
        }
        if let Some(password) = self.sentinel_password {
            settings += &format!("sentinel sentinel-pass {password}\n");
        }
        let sentinel = Server::sentinel(self.sentinel_password, &settings, |directory, port| {
            self.transport(directory, port)
        });
        // Sentinels then discover each other faster, and do not enter TILT mode on a busy machine. Before
        // Redis 7 this cannot be set, and discovery takes longer.
        let _ = sentinel.try_query::<()>(
            "SENTINEL DEBUG info-period 500 ask-period 200 publish-period 200 \
             tilt-trigger 20000 tilt-period 1000 min-link-reconnect-period 500",
        );
        sentinel
    }

    fn transport(&self, directory: &Path, port: u16) -> Vec<String> {
        self.certificates
            .map(|certificates| tls_options(certificates, directory, port))
            .unwrap_or_default()
    }
}

impl Drop for Sentinels {
    fn drop(&mut self) {
        let master = match std::thread::panicking() {
            true => None,
            false => self.agreed(),
        };
        self.sentinels.iter_mut().for_each(Server::kill);
        for (number, server) in self.servers.iter_mut().enumerate() {
            if Some(number) != master {
                server.kill();
            }
        }
    }
}

fn is_master(server: &Server) -> bool {
    let role = server.try_query::<String>("INFO replication");
    role.is_ok_and(|information| field(&information, "role") == Some("master"))
}
