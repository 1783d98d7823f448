//! What of a server's facts makes it unsafe.

use crate::engine::redis::check::info::Facts;
use crate::warning::{Danger, Warning};
use std::time::Duration;

/// When another server takes a master's place.
#[derive(Clone, Debug)]
pub(crate) struct Failover {
    /// No sooner than so long after the last lock that the master granted.
    pub(crate) after: Duration,
    /// What says so.
    pub(crate) setting: String,
}

/// Collects warnings of one server.
pub(crate) struct Judge<'a> {
    facts: &'a Facts,
    ttl: Duration,
    pub(crate) warnings: Vec<Warning>,
}

impl<'a> Judge<'a> {
    pub(crate) fn of(facts: &'a Facts, ttl: Duration) -> Judge<'a> {
        Judge {
            facts,
            ttl,
            warnings: Vec::new(),
        }
    }

    fn warn(&mut self, danger: Danger, found: impl Into<String>) {
        let warning = Warning::new(&self.facts.server, danger, found);
        self.warnings.push(warning);
    }

    /// A server that was named by itself. False if nothing else is to be said of it.
    pub(crate) fn stands_alone(&mut self) -> bool {
        let kind = match self.facts.field("redis_mode") {
            "cluster" => "a node of a Redis Cluster",
            "sentinel" => "a Sentinel",
            _ => {
                if self.facts.field("role") == "slave" {
                    let (host, port) = ("master_host", "master_port");
                    let (host, port) = (self.facts.field(host), self.facts.field(port));
                    self.warn(
                        Danger::Replica,
                        format!("it is a replica of `{host}:{port}`"),
                    );
                }
                return true;
            }
        };
        self.warn(Danger::OtherKind, format!("it is {kind}"));
        false
    }

    /// Whether it keeps what it has acknowledged.
    pub(crate) fn keeps(&mut self) {
        let facts = self.facts;
        let policy = facts.field("maxmemory_policy");
        if facts.number("maxmemory") > 0 && policy != "noeviction" {
            let found = format!("`maxmemory` is set, and `maxmemory-policy` is `{policy}`");
            self.warn(Danger::Eviction, found);
        }
        if facts.field("aof_enabled") != "1" {
            return self.warn(Danger::Forgetting, "`appendonly` is `no`");
        }
        match facts.setting("appendfsync") {
            Ok("always") => {}
            Ok(other) => self.warn(Danger::Forgetting, format!("`appendfsync` is `{other}`")),
            Err(error) => self.unknown("`appendfsync`", error),
        }
    }

    /// Whether a lock has ended by the time that another server may grant it.
    pub(crate) fn fails_over(&mut self, failover: &Failover) {
        let Failover { after, setting } = failover;
        let (ttl, needed) = (self.ttl, self.ttl + margin(self.ttl));
        let in_time = *after >= needed;
        if !in_time {
            let found = format!("{setting}: a failover after {after:?}, with a ttl of {ttl:?}");
            self.warn(Danger::EarlyFailover, found);
        }
        let settings = ["min-replicas-to-write", "min-replicas-max-lag"];
        let [replicas, lag] = settings.map(|name| self.facts.setting(name));
        let seconds = |text: &str| Duration::from_secs(text.parse().unwrap_or(0));
        match (replicas, lag) {
            (Ok("" | "0"), _) => {
                self.warn(Danger::TwoMasters, "`min-replicas-to-write` is 0");
            }
            (Ok(_), Ok(lag)) if in_time && seconds(lag).saturating_add(needed) > *after => {
                let found = format!(
                    "`min-replicas-max-lag` is {lag} s: with the ttl of {ttl:?} longer than a \
                     failover takes, which is {after:?}"
                );
                self.warn(Danger::TwoMasters, found);
            }
            (Err(error), _) => self.unknown("`min-replicas-to-write`", error),
            _ => {}
        }
    }

    /// The same, where the servers decide that among themselves.
    pub(crate) fn fails_over_in_cluster(&mut self) {
        const NAME: &str = "cluster-node-timeout";

        let timeout = self.facts.setting(NAME);
        match timeout.map(|timeout| timeout.parse().map(Duration::from_millis)) {
            Ok(Ok(after)) => self.fails_over(&Failover {
                setting: format!("`{NAME}` is {}", after.as_millis()),
                after,
            }),
            Ok(Err(_)) => self.unknown(&format!("`{NAME}`"), "it is no number"),
            Err(error) => self.unknown(&format!("`{NAME}`"), error),
        }
    }

    /// Whether another server that may take its place goes by the same clock.
    pub(crate) fn agrees_with(&mut self, other: &Facts) {
        let clocks = self.facts.clock.zip(other.clock);
        let apart = clocks.map_or(Duration::ZERO, |(ours, theirs)| ours.skew(theirs));
        if apart > margin(self.ttl) {
            let found = format!(
                "its clock and that of `{}` are {apart:?} apart",
                other.server
            );
            self.warn(Danger::Clocks, found);
        }
    }

    pub(crate) fn unknown(&mut self, what: &str, error: &str) {
        self.warn(Danger::Unknown, format!("{what} ({error})"));
    }
}

/// What clocks may differ by in the course of a ttl.
fn margin(ttl: Duration) -> Duration {
    ttl / 100 + Duration::from_millis(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(30);

    fn dangers(judge: &Judge<'_>) -> Vec<Danger> {
        judge.warnings.iter().map(Warning::danger).collect()
    }

    fn failing_over(after: u64, settings: &[(&str, &str)]) -> Vec<Danger> {
        let facts = Facts::said("", Ok(settings));
        let mut judge = Judge::of(&facts, TTL);
        judge.fails_over(&Failover {
            after: Duration::from_secs(after),
            setting: "`down-after-milliseconds` is 1000".into(),
        });
        dangers(&judge)
    }

    #[test]
    fn a_failover_must_come_later_than_the_last_lease_ends() {
        let replicas = [
            ("min-replicas-to-write", "1"),
            ("min-replicas-max-lag", "10"),
        ];
        assert_eq!(failing_over(42, &replicas), []);
        assert_eq!(failing_over(40, &replicas), [Danger::TwoMasters]);
        assert_eq!(failing_over(31, &replicas), [Danger::TwoMasters]);
        assert_eq!(failing_over(30, &replicas), [Danger::EarlyFailover]);
        let none = [
            ("min-replicas-to-write", "0"),
            ("min-replicas-max-lag", "10"),
        ];
        assert_eq!(failing_over(42, &none), [Danger::TwoMasters]);
        let ever = [
            ("min-replicas-to-write", "1"),
            ("min-replicas-max-lag", "18446744073709551615"),
        ];
        assert_eq!(failing_over(42, &ever), [Danger::TwoMasters]);
        let both = [Danger::EarlyFailover, Danger::TwoMasters];
        assert_eq!(failing_over(1, &none), both);
    }

    #[test]
    fn one_of_many_does_not_stand_alone() {
        for mode in ["cluster", "sentinel"] {
            let facts = Facts::said(&format!("redis_mode:{mode}\r\nrole:slave\r\n"), Ok(&[]));
            let mut judge = Judge::of(&facts, TTL);
            assert!(!judge.stands_alone());
            assert_eq!(dangers(&judge), [Danger::OtherKind]);
        }
    }

    #[test]
    fn only_a_full_memory_evicts() {
        let said = |maxmemory, policy| {
            let information =
                format!("maxmemory:{maxmemory}\r\nmaxmemory_policy:{policy}\r\naof_enabled:1\r\n");
            let facts = Facts::said(&information, Ok(&[("appendfsync", "always")]));
            let mut judge = Judge::of(&facts, TTL);
            judge.keeps();
            dangers(&judge)
        };
        assert_eq!(said(0, "allkeys-lru"), []);
        assert_eq!(said(1000, "noeviction"), []);
        assert_eq!(said(1000, "volatile-ttl"), [Danger::Eviction]);
    }

    #[test]
    fn what_may_not_be_asked_is_said_to_be_unknown() {
        let facts = Facts::said("aof_enabled:1\r\n", Err("`CONFIG GET`: NOPERM"));
        let mut judge = Judge::of(&facts, TTL);
        judge.keeps();
        assert_eq!(dangers(&judge), [Danger::Unknown]);
        let words = judge.warnings[0].to_string();
        assert!(words.contains("could not be checked"), "{words}");
        assert!(
            words.contains("NOPERM") && words.contains("+config|get"),
            "{words}"
        );
    }
}
