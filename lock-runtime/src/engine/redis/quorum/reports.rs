//! The reports of processes, at all members.

use crate::engine::error::EngineError;
use crate::engine::operations::{Reading, StoredReport};
use crate::engine::redis::quorum::QuorumEngine;
use crate::process::ProcessId;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

impl QuorumEngine {
    /// Stores a report. Fails unless a majority has stored it.
    pub(crate) async fn report(
        &self,
        process: ProcessId,
        text: Arc<str>,
        deadline: Instant,
    ) -> Result<(), EngineError> {
        let members = &self.members;
        let replies = members.ask_all(|member| {
            let (members, text) = (members.clone(), text.clone());
            async move { members.list[member].report(process, text, deadline).await }
        });
        let stored = members.collect(replies, deadline, |reply| reply.map(|()| true));
        let stored = stored.await;
        match stored.decided() {
            Some(_) => Ok(()),
            None => Err(stored.error(&members.list, "stored", "")),
        }
    }

    /// Returns the latest report of each process that any member knows. Fails unless a majority replies.
    pub(crate) async fn reports(
        &self,
        of: Option<&[ProcessId]>,
        reading: Reading,
    ) -> Result<Vec<StoredReport>, EngineError> {
        let members = &self.members;
        let of: Option<Arc<[ProcessId]>> = of.map(Arc::from);
        let replies = members.ask_all(|member| {
            let (members, of) = (members.clone(), of.clone());
            async move { members.list[member].reports(of.as_deref(), reading).await }
        });
        let reports = members.gather(replies, reading.until, "answers").await?;
        Ok(latest(reports.into_iter().flatten()))
    }
}

fn latest(reports: impl Iterator<Item = StoredReport>) -> Vec<StoredReport> {
    let age = |report: &StoredReport| report.age.unwrap_or(Duration::MAX);
    let mut latest = HashMap::new();
    for report in reports {
        match latest.entry(report.process) {
            Entry::Vacant(entry) => drop(entry.insert(report)),
            Entry::Occupied(mut entry) if age(&report) < age(entry.get()) => {
                entry.insert(report);
            }
            Entry::Occupied(_) => {}
        }
    }
    let mut latest: Vec<_> = latest.into_values().collect();
    latest.sort_unstable_by_key(age);
    latest
}
