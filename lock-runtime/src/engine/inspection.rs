//! Findings about the servers behind an engine.

use crate::engine::error::EngineError;
use crate::warning::{Warning, WarningKind};
use std::sync::Arc;
use std::time::Duration;

#[derive(Default)]
pub(crate) struct Inspection {
    pub(crate) warnings: Vec<Warning>,
    /// The servers that could be inspected.
    identities: Vec<ServerIdentity>,
}

/// The identity of a server.
pub(crate) struct ServerIdentity {
    pub(crate) address: Arc<str>,
    /// Chosen by the server when it starts; empty if it is unknown.
    pub(crate) run_id: String,
    /// Shared by a master and its replicas; empty if it is unknown.
    pub(crate) replication_id: String,
    /// `None` if the server did not report its time.
    pub(crate) clock: Option<ClockOffset>,
}

/// Bounds on how many milliseconds a server's clock is ahead of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClockOffset {
    pub(crate) min_ms: i64,
    pub(crate) max_ms: i64,
}

impl ClockOffset {
    /// Returns the least possible difference between the two servers' clocks.
    pub(crate) fn skew(self, other: ClockOffset) -> Duration {
        let between =
            |one: ClockOffset, other: ClockOffset| one.min_ms.saturating_sub(other.max_ms);
        let skew = between(self, other).max(between(other, self));
        Duration::from_millis(u64::try_from(skew).unwrap_or(0))
    }
}

impl Inspection {
    /// Merges the findings about quorum members, which must be independent of one another.
    pub(crate) fn merge(members: Vec<Inspection>, ttl: Duration) -> Inspection {
        let mut merged = Inspection::default();
        for mut member in members {
            merged.warnings.append(&mut member.warnings);
            for server in &member.identities {
                for other in &merged.identities {
                    merged.warnings.extend(server.conflict_with(other, ttl));
                }
            }
            merged.identities.append(&mut member.identities);
        }
        merged
    }

    pub(crate) fn add_server(&mut self, identity: ServerIdentity) {
        self.identities.push(identity);
    }

    pub(crate) fn add_unreachable(&mut self, server: &Arc<str>, error: &EngineError) {
        let found = format!("it can't be queried ({error})");
        self.warnings
            .push(Warning::new(server, WarningKind::NotChecked, found));
    }
}

impl ServerIdentity {
    /// Returns a warning if the two servers must not be members of the same quorum.
    fn conflict_with(&self, other: &ServerIdentity, ttl: Duration) -> Option<Warning> {
        let same = |a: &str, b: &str| !a.is_empty() && a == b;
        let address = &other.address;
        let clocks = self.clock.zip(other.clock);
        let skew = clocks.map_or(Duration::ZERO, |(ours, theirs)| ours.skew(theirs));
        let (danger, found) = if same(&self.run_id, &other.run_id) {
            let found = format!("it is the same server as `{address}`");
            (WarningKind::DependentMembers, found)
        } else if same(&self.replication_id, &other.replication_id) {
            let found = format!("it and `{address}` replicate one another");
            (WarningKind::DependentMembers, found)
        } else if skew > ttl {
            let found = format!("its clock and that of `{address}` are {skew:?} apart");
            (WarningKind::ClockSkew, found)
        } else {
            return None;
        };
        Some(Warning::new(&self.address, danger, found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(30);

    fn member(server: &str, run_id: &str, replication_id: &str, clock: i64) -> Inspection {
        Inspection {
            warnings: Vec::new(),
            identities: vec![ServerIdentity {
                address: server.into(),
                run_id: run_id.to_owned(),
                replication_id: replication_id.to_owned(),
                clock: Some(ClockOffset {
                    min_ms: clock - 1,
                    max_ms: clock + 1,
                }),
            }],
        }
    }

    fn kinds(members: Vec<Inspection>) -> Vec<(String, WarningKind)> {
        let found = Inspection::merge(members, TTL);
        let warnings = found.warnings.iter();
        warnings
            .map(|warning| (warning.server().to_owned(), warning.kind()))
            .collect()
    }

    #[test]
    fn dependent_members_are_reported() {
        let members = ["a", "b", "c"].map(|name| member(name, name, name, 0));
        assert!(kinds(members.into()).is_empty());
        let same = vec![member("a", "1", "2", 0), member("b", "1", "2", 0)];
        assert_eq!(
            kinds(same),
            [("b".to_owned(), WarningKind::DependentMembers)]
        );
        let replicas = vec![member("a", "1", "2", 0), member("b", "3", "2", 0)];
        assert_eq!(
            kinds(replicas),
            [("b".to_owned(), WarningKind::DependentMembers)]
        );
        let late = vec![member("a", "1", "1", 0), member("b", "2", "2", -31_000)];
        assert_eq!(kinds(late), [("b".to_owned(), WarningKind::ClockSkew)]);
        let silent = vec![member("a", "", "", 0), member("b", "", "", 0)];
        assert!(kinds(silent).is_empty());
    }
}
