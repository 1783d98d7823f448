//! Looks for what makes the servers of a site unsafe.

pub(crate) mod info;
pub(crate) mod rules;

use crate::engine::inspection::Inspection;
use crate::engine::redis::check::info::Facts;
use crate::engine::redis::check::rules::{Failover, Judge};
use crate::engine::redis::net::target::Target;
use crate::engine::redis::topology::Site;
use crate::engine::timeouts::Timeouts;
use crate::util::io_thread::Io;
use crate::util::join_all::all;
use std::sync::Arc;
use std::time::Duration;

/// A Sentinel counts from the last answer that it has had from the master, which it asks once a second.
const SENTINEL_PERIOD: Duration = Duration::from_secs(1);

pub(crate) struct Inspector {
    pub(crate) io: Io,
    pub(crate) site: Site,
    pub(crate) timeouts: Timeouts,
}

impl Inspector {
    pub(crate) async fn inspect(&self, ttl: Duration, replicas: u32) -> Inspection {
        let mut found = Inspection::default();
        match &self.site {
            Site::Fixed(target) => {
                let facts = self.facts([target.clone()], &mut found).await;
                for facts in &facts {
                    let mut judge = Judge::of(facts, ttl);
                    if judge.stands_alone() {
                        judge.keeps();
                    }
                    found.warnings.append(&mut judge.warnings);
                }
            }
            Site::Named(sentinels) => match sentinels.master().await {
                Ok((master, _)) => {
                    let mut servers = self.facts([master.clone()], &mut found).await;
                    let followers = servers.iter().flat_map(Facts::replicas);
                    let followers = followers.filter_map(|it| master.moved_to(&it).ok());
                    let followers: Vec<_> = followers.map(Arc::new).collect();
                    servers.extend(self.facts(followers, &mut found).await);
                    let down_after = sentinels.down_after().unwrap_or_default();
                    let failover = Failover {
                        after: down_after.saturating_sub(SENTINEL_PERIOD),
                        setting: format!("`down-after-milliseconds` is {}", down_after.as_millis()),
                    };
                    judge(&servers, (ttl, replicas), Some(&failover), &mut found);
                }
                Err(error) => found.add_unreachable(&self.site.to_string().into(), &error),
            },
            Site::Cluster(contacts) => {
                let nodes = contacts.all();
                let targets = nodes.iter().filter_map(|node| contacts.target(node).ok());
                let targets: Vec<_> = targets.map(Arc::new).collect();
                let mut servers = self.facts(targets, &mut found).await;
                // One may be known by several names.
                servers.sort_by(|a, b| a.field("run_id").cmp(b.field("run_id")));
                servers.dedup_by(|a, b| a.field("run_id") == b.field("run_id"));
                judge(&servers, (ttl, replicas), None, &mut found);
            }
        }
        found
    }

    /// What those servers say that can be asked.
    async fn facts(
        &self,
        targets: impl IntoIterator<Item = Arc<Target>>,
        found: &mut Inspection,
    ) -> Vec<Facts> {
        let ask = async |target: Arc<Target>| {
            let facts = Facts::of(self.io, target.clone(), self.timeouts.connect).await;
            facts.map_err(|error| (target, error))
        };
        let mut all_facts = Vec::new();
        for facts in all(targets.into_iter().map(ask)).await {
            match facts {
                Ok(facts) => {
                    found.add_server(facts.identity());
                    all_facts.push(facts);
                }
                Err((target, error)) => found.add_unreachable(&target.to_string().into(), &error),
            }
        }
        all_facts
    }
}

/// Judges servers of which some take the place of others, as that says or their own settings.
fn judge(
    servers: &[Facts],
    (ttl, replicas): (Duration, u32),
    failover: Option<&Failover>,
    found: &mut Inspection,
) {
    for facts in servers {
        let mut judge = Judge::of(facts, ttl);
        judge.keeps();
        // Where all replicas know of a lock, none grants it again.
        let is_known = u64::from(replicas) >= facts.number("connected_slaves");
        if facts.field("role") == "master" && !is_known {
            match failover {
                Some(failover) => judge.fails_over(failover),
                None => judge.fails_over_in_cluster(),
            }
        }
        for other in servers.iter().filter(|other| other.follows(facts)) {
            judge.agrees_with(other);
        }
        found.warnings.append(&mut judge.warnings);
    }
}
