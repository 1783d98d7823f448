//! What was found out about the servers behind an engine.

use crate::engine::EngineError;
use crate::engine::redis::check::info::{Clock, Facts};
use crate::warning::{Danger, Warning};
use std::sync::Arc;
use std::time::Duration;

#[derive(Default)]
pub(crate) struct Inspection {
    pub(crate) warnings: Vec<Warning>,
    /// All that could be asked.
    servers: Vec<Server>,
}

/// What tells one server from another.
struct Server {
    address: Arc<str>,
    /// Its own as long as it runs.
    run_id: String,
    /// What a master and its replicas have in common.
    history: String,
    clock: Option<Clock>,
}

impl Inspection {
    /// That of members which are to have nothing in common.
    pub(crate) fn of_members(members: Vec<Inspection>, ttl: Duration) -> Inspection {
        let mut all = Inspection::default();
        for mut member in members {
            all.warnings.append(&mut member.warnings);
            for server in &member.servers {
                for other in &all.servers {
                    all.warnings.extend(server.compare(other, ttl));
                }
            }
            all.servers.append(&mut member.servers);
        }
        all
    }

    pub(crate) fn knows(&mut self, facts: &Facts) {
        self.servers.push(Server {
            address: facts.server.clone(),
            run_id: facts.field("run_id").to_owned(),
            history: facts.field("master_replid").to_owned(),
            clock: facts.clock,
        });
    }

    pub(crate) fn unknown(&mut self, server: &Arc<str>, error: &EngineError) {
        let found = format!("it can't be asked ({error})");
        self.warnings
            .push(Warning::new(server, Danger::Unknown, found));
    }
}

impl Server {
    fn compare(&self, other: &Server, ttl: Duration) -> Option<Warning> {
        let same = |a: &str, b: &str| !a.is_empty() && a == b;
        let address = &other.address;
        let clocks = self.clock.zip(other.clock);
        let apart = clocks.map_or(Duration::ZERO, |(ours, theirs)| ours.apart(theirs));
        let (danger, found) = if same(&self.run_id, &other.run_id) {
            let found = format!("it is the same server as `{address}`");
            (Danger::Dependence, found)
        } else if same(&self.history, &other.history) {
            let found = format!("it and `{address}` replicate one another");
            (Danger::Dependence, found)
        } else if apart > ttl {
            let found = format!("its clock and that of `{address}` are {apart:?} apart");
            (Danger::Clocks, found)
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

    fn member(server: &str, run_id: &str, history: &str, clock: i64) -> Inspection {
        Inspection {
            warnings: Vec::new(),
            servers: vec![Server {
                address: server.into(),
                run_id: run_id.to_owned(),
                history: history.to_owned(),
                clock: Some(Clock {
                    least: clock - 1,
                    most: clock + 1,
                }),
            }],
        }
    }

    fn dangers(members: Vec<Inspection>) -> Vec<(String, Danger)> {
        let found = Inspection::of_members(members, TTL);
        let told = found.warnings.iter();
        told.map(|warning| (warning.server().to_owned(), warning.danger()))
            .collect()
    }

    #[test]
    fn members_have_nothing_in_common() {
        let members = ["a", "b", "c"].map(|name| member(name, name, name, 0));
        assert!(dangers(members.into()).is_empty());
        let same = vec![member("a", "1", "2", 0), member("b", "1", "2", 0)];
        assert_eq!(dangers(same), [("b".to_owned(), Danger::Dependence)]);
        let replicas = vec![member("a", "1", "2", 0), member("b", "3", "2", 0)];
        assert_eq!(dangers(replicas), [("b".to_owned(), Danger::Dependence)]);
        let late = vec![member("a", "1", "1", 0), member("b", "2", "2", -31_000)];
        assert_eq!(dangers(late), [("b".to_owned(), Danger::Clocks)]);
        let silent = vec![member("a", "", "", 0), member("b", "", "", 0)];
        assert!(dangers(silent).is_empty());
    }
}
