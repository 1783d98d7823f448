//! The reports of processes: the data of nodes that end with their sessions.

use crate::engine::error::EngineError;
use crate::engine::operations::{MAX_REPORTS, Reading, StoredReport, beginning};
use crate::engine::zookeeper::ZooKeeperEngine;
use crate::engine::zookeeper::conn::session::{Session, done};
use crate::engine::zookeeper::lock::claims::Claims;
use crate::engine::zookeeper::lock::read::{children_of, submit_data};
use crate::engine::zookeeper::own_report::Report;
use crate::engine::zookeeper::wire::error::Failure;
use crate::engine::zookeeper::wire::reply::Reply;
use crate::engine::zookeeper::wire::request::Request;
use crate::process::ProcessId;
use std::sync::Arc;
use tokio::time::Instant;

/// How many reports are asked for at once: each may be as long as ZooKeeper allows.
const WINDOW: usize = 32;

impl ZooKeeperEngine {
    /// Stores the report of this process, now and in each later session.
    pub(crate) async fn report(
        &self,
        process: ProcessId,
        report: Arc<str>,
        deadline: Instant,
    ) -> Result<(), EngineError> {
        let (claims, own, ttl) = (
            self.claims.clone(),
            self.own_report.clone(),
            self.default_ttl,
        );
        let stored = async move {
            let path = path_of(&claims, process);
            own.store(Report { path, text: report }, &claims, ttl, deadline)
                .await
        };
        self.claims.run(deadline, stored).await
    }

    /// Returns those of these processes, or of all, that have reported. Those are skipped that this user may
    /// not read, unless there are no others.
    pub(crate) async fn reports(
        &self,
        of: Option<&[ProcessId]>,
        reading: Reading,
    ) -> Result<Vec<StoredReport>, EngineError> {
        let (claims, of) = (self.claims.clone(), of.map(<[_]>::to_vec));
        let session = claims.sessions.of(self.default_ttl);
        let reports = async move {
            let deadline = reading.next();
            let processes = match of {
                Some(of) => {
                    let path = claims.paths.processes();
                    done(session.request(Request::Sync { path }, deadline).await)?;
                    of
                }
                None => processes_of(&claims, &session, deadline).await?,
            };
            let (mut reports, mut refused) = (Vec::new(), None);
            for some in processes.chunks(WINDOW) {
                let deadline = reading.next();
                let path = |process: &ProcessId| path_of(&claims, *process);
                let read = some
                    .iter()
                    .map(|process| submit_data(&session, path(process), None, deadline));
                let read: Vec<_> = read.collect();
                for (process, read) in some.iter().zip(read) {
                    match read.reply().await {
                        Ok(Reply::Data(data, stat)) => reports.push(StoredReport {
                            process: *process,
                            text: beginning(&data),
                            age: claims
                                .leader_time()
                                .map(|now| now.saturating_sub(stat.changed_at)),
                            revision: i64::try_from(stat.zxid).unwrap_or(i64::MAX),
                        }),
                        Ok(_) => return Err(Failure::Malformed),
                        Err(Failure::NoNode) => {}
                        Err(Failure::NoPermission) => refused = Some(Failure::NoPermission),
                        Err(failure) => return Err(failure),
                    }
                }
            }
            match refused.filter(|_| reports.is_empty()) {
                Some(refused) => Err(refused),
                None => Ok(reports),
            }
        };
        self.claims.run(reading.until, reports).await
    }
}

fn path_of(claims: &Claims, process: ProcessId) -> String {
    format!("{}/{process}", claims.paths.processes())
}

async fn processes_of(
    claims: &Claims,
    session: &Session,
    deadline: Instant,
) -> Result<Vec<ProcessId>, Failure> {
    let names = children_of(session, &claims.paths.processes(), deadline).await?;
    let processes = names.iter().filter_map(|name| ProcessId::parse(name));
    Ok(processes.take(MAX_REPORTS).collect())
}
