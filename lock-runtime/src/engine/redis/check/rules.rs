//! The rules: which settings of a server endanger locks.

use crate::engine::redis::check::info::ServerInfo;
use crate::engine::url::format_address;
use crate::warning::{Warning, WarningKind};
use std::time::Duration;

pub(crate) const NEEDED: &str = "the check needs the permissions `+info +time +config|get`";

/// A failover, in which another server replaces a master.
#[derive(Clone, Debug)]
pub(crate) struct Failover {
    /// The shortest time since the last lock that the master granted.
    pub(crate) after: Duration,
    /// The setting that determines it.
    pub(crate) setting: String,
}

/// The checks of one server, and their warnings.
pub(crate) struct ServerChecks<'a> {
    server: &'a ServerInfo,
    ttl: Duration,
    pub(crate) warnings: Vec<Warning>,
}

impl<'a> ServerChecks<'a> {
    pub(crate) fn new(server: &'a ServerInfo, ttl: Duration) -> ServerChecks<'a> {
        ServerChecks {
            server,
            ttl,
            warnings: Vec::new(),
        }
    }

    fn warn(&mut self, danger: WarningKind, found: impl Into<String>) {
        let warning = Warning::new(&self.server.server, danger, found);
        self.warnings.push(warning);
    }

    /// Checks a server whose URL names it alone. Returns `false` if other checks make no sense for it.
    pub(crate) fn check_topology(&mut self) -> bool {
        let kind = match self.server.info("redis_mode") {
            "cluster" => "a node of a Redis Cluster",
            "sentinel" => "a Sentinel",
            _ => {
                if self.server.info("role") == "slave" {
                    let (host, port) = ("master_host", "master_port");
                    let (host, port) = (self.server.info(host), self.server.info(port));
                    let master = format_address(&(host.into(), port.parse().unwrap_or_default()));
                    self.warn(
                        WarningKind::ConnectedToReplica,
                        format!("it is a replica of `{master}`"),
                    );
                }
                return true;
            }
        };
        self.warn(WarningKind::WrongTopology, format!("it is {kind}"));
        false
    }

    /// Checks that the server keeps the writes that it has acknowledged.
    pub(crate) fn check_durability(&mut self) {
        let server = self.server;
        let policy = server.info("maxmemory_policy");
        if server.info_u64("maxmemory") > 0 && policy != "noeviction" {
            let found = format!("`maxmemory` is set, and `maxmemory-policy` is `{policy}`");
            self.warn(WarningKind::Eviction, found);
        }
        if server.info("aof_enabled") != "1" {
            return self.warn(WarningKind::NotDurable, "`appendonly` is `no`");
        }
        match server.config("appendfsync") {
            Ok("always") => {}
            Ok(other) => self.warn(
                WarningKind::NotDurable,
                format!("`appendfsync` is `{other}`"),
            ),
            Err(error) => self.not_checked("`appendfsync`", error),
        }
    }

    /// Checks that every lease has ended before another server may grant the lock.
    pub(crate) fn check_failover(&mut self, failover: &Failover) {
        let Failover { after, setting } = failover;
        let (ttl, needed) = (self.ttl, self.ttl + margin(self.ttl));
        let in_time = *after >= needed;
        if !in_time {
            let found = format!("{setting}: a failover after {after:?}, with a ttl of {ttl:?}");
            self.warn(WarningKind::EarlyFailover, found);
        }
        let settings = ["min-replicas-to-write", "min-replicas-max-lag"];
        let [replicas, lag] = settings.map(|name| self.server.config(name));
        let seconds = |text: &str| Duration::from_secs(text.parse().unwrap_or(0));
        match (replicas, lag) {
            (Ok("" | "0"), _) => {
                self.warn(WarningKind::SplitBrain, "`min-replicas-to-write` is 0");
            }
            (Ok(_), Ok(lag)) if in_time && seconds(lag).saturating_add(needed) > *after => {
                let found = format!(
                    "`min-replicas-max-lag` is {lag} s: with the ttl of {ttl:?} longer than a \
                     failover takes, which is {after:?}"
                );
                self.warn(WarningKind::SplitBrain, found);
            }
            (Err(error), _) => self.not_checked("`min-replicas-to-write`", error),
            _ => {}
        }
    }

    /// Like [`check_failover`](Self::check_failover), for a node of a cluster.
    pub(crate) fn check_cluster_failover(&mut self) {
        const NAME: &str = "cluster-node-timeout";

        let timeout = self.server.config(NAME);
        match timeout.map(|timeout| timeout.parse().map(Duration::from_millis)) {
            Ok(Ok(after)) => self.check_failover(&Failover {
                setting: format!("`{NAME}` is {}", after.as_millis()),
                after,
            }),
            Ok(Err(_)) => self.not_checked(&format!("`{NAME}`"), "it is not a number"),
            Err(error) => self.not_checked(&format!("`{NAME}`"), error),
        }
    }

    /// Checks that the server's clock agrees with that of a server that may replace it.
    pub(crate) fn check_clock_skew(&mut self, other: &ServerInfo) {
        let clocks = self.server.clock.zip(other.clock);
        let skew = clocks.map_or(Duration::ZERO, |(ours, theirs)| ours.skew(theirs));
        if skew > margin(self.ttl) {
            let found = format!(
                "its clock and that of `{}` are {skew:?} apart",
                other.server
            );
            self.warn(WarningKind::ClockSkew, found);
        }
    }

    pub(crate) fn not_checked(&mut self, what: &str, error: &str) {
        let found = format!("{what} ({error}; {NEEDED})");
        self.warn(WarningKind::NotChecked, found);
    }
}

/// Returns how far clocks may drift apart during a ttl.
fn margin(ttl: Duration) -> Duration {
    ttl / 100 + Duration::from_millis(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(30);

    fn kinds(checks: &ServerChecks<'_>) -> Vec<WarningKind> {
        checks.warnings.iter().map(Warning::kind).collect()
    }

    fn failing_over(after: u64, settings: &[(&str, &str)]) -> Vec<WarningKind> {
        let server = ServerInfo::for_test("", Ok(settings));
        let mut checks = ServerChecks::new(&server, TTL);
        checks.check_failover(&Failover {
            after: Duration::from_secs(after),
            setting: "`down-after-milliseconds` is 1000".into(),
        });
        kinds(&checks)
    }

    #[test]
    fn a_failover_must_come_later_than_the_last_lease_ends() {
        let replicas = [
            ("min-replicas-to-write", "1"),
            ("min-replicas-max-lag", "10"),
        ];
        assert_eq!(failing_over(42, &replicas), []);
        assert_eq!(failing_over(40, &replicas), [WarningKind::SplitBrain]);
        assert_eq!(failing_over(31, &replicas), [WarningKind::SplitBrain]);
        assert_eq!(failing_over(30, &replicas), [WarningKind::EarlyFailover]);
        let none = [
            ("min-replicas-to-write", "0"),
            ("min-replicas-max-lag", "10"),
        ];
        assert_eq!(failing_over(42, &none), [WarningKind::SplitBrain]);
        let ever = [
            ("min-replicas-to-write", "1"),
            ("min-replicas-max-lag", "18446744073709551615"),
        ];
        assert_eq!(failing_over(42, &ever), [WarningKind::SplitBrain]);
        let both = [WarningKind::EarlyFailover, WarningKind::SplitBrain];
        assert_eq!(failing_over(1, &none), both);
    }

    #[test]
    fn a_cluster_node_or_sentinel_is_the_wrong_topology() {
        for mode in ["cluster", "sentinel"] {
            let server =
                ServerInfo::for_test(&format!("redis_mode:{mode}\r\nrole:slave\r\n"), Ok(&[]));
            let mut checks = ServerChecks::new(&server, TTL);
            assert!(!checks.check_topology());
            assert_eq!(kinds(&checks), [WarningKind::WrongTopology]);
        }
    }

    #[test]
    fn eviction_is_reported_only_with_a_memory_limit_and_an_evicting_policy() {
        let warnings = |maxmemory, policy| {
            let information =
                format!("maxmemory:{maxmemory}\r\nmaxmemory_policy:{policy}\r\naof_enabled:1\r\n");
            let server = ServerInfo::for_test(&information, Ok(&[("appendfsync", "always")]));
            let mut checks = ServerChecks::new(&server, TTL);
            checks.check_durability();
            kinds(&checks)
        };
        assert_eq!(warnings(0, "allkeys-lru"), []);
        assert_eq!(warnings(1000, "noeviction"), []);
        assert_eq!(warnings(1000, "volatile-ttl"), [WarningKind::Eviction]);
    }

    #[test]
    fn an_unreadable_setting_is_reported_as_not_checked() {
        let server = ServerInfo::for_test("aof_enabled:1\r\n", Err("`CONFIG GET`: NOPERM"));
        let mut checks = ServerChecks::new(&server, TTL);
        checks.check_durability();
        assert_eq!(kinds(&checks), [WarningKind::NotChecked]);
        let words = checks.warnings[0].to_string();
        assert!(words.contains("could not be checked"), "{words}");
        assert!(
            words.contains("NOPERM") && words.contains("+config|get"),
            "{words}"
        );
    }
}
