//! Checks members and their cluster for settings that endanger locks.

use crate::engine::etcd::conn::channel::Channel;
use crate::engine::etcd::lock::core::Core;
use crate::engine::etcd::wire::error::Failure;
use crate::engine::etcd::wire::messages::{
    AlarmResponse, Empty, MemberListResponse, RangeRequest, RangeResponse, StatusResponse,
};
use crate::engine::inspection::Inspection;
use crate::engine::url::format_address;
use crate::util::time::deadline_in;
use crate::warning::{Warning, WarningKind};
use prost::bytes::Bytes;
use std::sync::Arc;

const NO_SPACE: i32 = 1;
const CORRUPT: i32 = 2;

/// A history of so many revisions is compacted by now if it ever is.
const LONG_HISTORY: i64 = 100_000;

/// Inspects each member that the URL names, and the cluster through the first that replies.
pub(crate) async fn inspect(core: &Core) -> Inspection {
    let connector = core.client.connector.clone();
    let deadline = deadline_in(connector.timeouts.connect);
    let mut found = Inspection::default();
    let mut cluster_is_known = false;
    for host in &connector.address.hosts {
        let server: Arc<str> = format_address(host).into();
        let (task, host) = (connector.clone(), host.clone());
        let key = core.keys.epoch();
        let ask = async move {
            let login = task.address.credentials.get(task.io, deadline).await?;
            let connection = task.reach(&host, login, deadline).await;
            let report = async { ask(&connection?.channel, key).await };
            report.await.map_err(Failure::into_engine_error)
        };
        match core.client.run(deadline, ask).await {
            Ok(report) => {
                found.warnings.extend(report.of_member(&server));
                if !cluster_is_known {
                    found.warnings.extend(report.of_cluster(&server));
                }
                cluster_is_known = true;
            }
            Err(error) => found.add_unreachable(&server, &error),
        }
    }
    found
}

/// The replies of a member.
struct Report {
    status: StatusResponse,
    alarms: AlarmResponse,
    members: MemberListResponse,
    /// The present revision, if the history from the first one on is there.
    whole_history: Option<i64>,
}

/// Asks a member. The key is one that the user may read.
async fn ask(channel: &Channel, key: Bytes) -> Result<Report, Failure> {
    let first = RangeRequest {
        key,
        revision: 1,
        ..RangeRequest::default()
    };
    let first: Result<RangeResponse, _> = channel.call("/etcdserverpb.KV/Range", &first).await;
    let whole_history = match first {
        Ok(reply) => reply.header.map(|header| header.revision),
        Err(failure) if failure.is_compacted() => None,
        Err(failure) => return Err(failure),
    };
    let nothing = Empty {};
    Ok(Report {
        status: channel
            .call("/etcdserverpb.Maintenance/Status", &nothing)
            .await?,
        // Without a field set, it asks for all alarms.
        alarms: channel
            .call("/etcdserverpb.Maintenance/Alarm", &nothing)
            .await?,
        members: channel
            .call("/etcdserverpb.Cluster/MemberList", &nothing)
            .await?,
        whole_history,
    })
}

impl Report {
    fn of_member(&self, server: &Arc<str>) -> Vec<Warning> {
        let mut warnings = Vec::new();
        let mut warn = |kind, words: String| warnings.push(Warning::new(server, kind, words));
        if self.status.leader == 0 {
            let words = "it has no leader: more than half of the members must run";
            warn(WarningKind::NoQuorum, words.to_owned());
        }
        if self.status.is_learner {
            let words = "it is a learner, which takes no requests of locks";
            warn(WarningKind::NoQuorum, words.to_owned());
        }
        if is_old(&self.status.version) {
            let words = format!(
                "with version {}, members may come to have different data (etcd pull requests 13908 and 14733)",
                self.status.version
            );
            warn(WarningKind::OldVersion, words);
        }
        warnings
    }

    fn of_cluster(&self, server: &Arc<str>) -> Vec<Warning> {
        let mut warnings = Vec::new();
        let mut warn = |kind, words: String| warnings.push(Warning::new(server, kind, words));
        for alarm in &self.alarms.alarms {
            match alarm.kind {
                NO_SPACE => warn(
                    WarningKind::NoSpace,
                    "the alarm `NOSPACE` stops all writes".to_owned(),
                ),
                CORRUPT => warn(
                    WarningKind::NotDurable,
                    "the alarm `CORRUPT` is set: members have different data".to_owned(),
                ),
                _ => {}
            }
        }
        if let Some(revisions) = self.whole_history.filter(|it| *it >= LONG_HISTORY) {
            let words = format!("its history of {revisions} revisions was never compacted");
            warn(WarningKind::NeverCompacted, words);
        }
        let voters = self
            .members
            .members
            .iter()
            .filter(|it| !it.is_learner)
            .count();
        if voters == 1 {
            let words = "the cluster has one member";
            warn(WarningKind::NoQuorum, words.to_owned());
        } else if voters % 2 == 0 {
            let words = format!(
                "the cluster has {voters} members, which survive no more losses than {}",
                voters.saturating_sub(1)
            );
            warn(WarningKind::NoQuorum, words);
        }
        warnings
    }
}

/// Returns `true` for versions that are too old for this library, and for those of 3.5 before that was
/// repaired.
fn is_old(version: &str) -> bool {
    let mut parts = version
        .split(['.', '-'])
        .map(|part| part.parse::<u32>().ok());
    let mut next = || parts.next().flatten().unwrap_or(u32::MAX);
    let (major, minor, patch) = (next(), next(), next());
    match (major, minor) {
        (3, ..=3) => true,
        (3, 5) => patch < 6,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_before_the_repair_are_old() {
        for (version, old) in [
            ("3.3.25", true),
            ("3.4.23", false),
            ("3.5.5", true),
            ("3.5.6", false),
            ("3.5.0-rc.1", true),
            ("3.6.0", false),
            ("", false),
        ] {
            assert_eq!(is_old(version), old, "{version}");
        }
    }
}
