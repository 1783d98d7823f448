//! The reports of processes: a record of each, with the time at which it was stored.

use crate::engine::error::EngineError;
use crate::engine::operations::{MAX_REPORTS, REPORT_TTL, Reading, StoredReport, beginning};
use crate::engine::store::StoreEngine;
use crate::engine::store::record::STAMP;
use crate::own_store::{Loaded, Version};
use crate::process::ProcessId;
use crate::util::join_all::join_all;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::time::Instant;
use uuid::Uuid;

/// The length of the stamp, and of the time.
const HEAD: usize = STAMP + 8;
/// Whoever reads reports deletes those of processes that ended so long ago.
const FORGOTTEN: Duration = Duration::from_secs(3600);

impl StoreEngine {
    pub(crate) async fn report(
        &self,
        process: ProcessId,
        report: Arc<str>,
        deadline: Instant,
    ) -> Result<(), EngineError> {
        let (core, name) = (&self.core, self.core.keys.report(process));
        let write = |present: &Loaded| {
            let mut record = Uuid::new_v4().into_bytes().to_vec();
            record.extend((time_of(present).as_micros() as u64).to_be_bytes());
            record.extend(report.as_bytes());
            record
        };
        core.rewrite(&name, write, deadline).await
    }

    pub(crate) async fn reports(
        &self,
        of: Option<&[ProcessId]>,
        reading: Reading,
    ) -> Result<Vec<StoredReport>, EngineError> {
        let core = &self.core;
        let processes = match of {
            Some(of) => of.to_vec(),
            None => {
                let names = core
                    .names(&core.keys.reports, MAX_REPORTS, reading.until)
                    .await?;
                names
                    .iter()
                    .filter_map(|it| core.keys.reporter(it))
                    .collect()
            }
        };
        let read = processes.into_iter().map(|it| self.report_of(it, reading));
        let reports: Result<Vec<_>, _> = join_all(read).await.into_iter().collect();
        Ok(reports?.into_iter().flatten().collect())
    }

    async fn report_of(
        &self,
        process: ProcessId,
        reading: Reading,
    ) -> Result<Option<StoredReport>, EngineError> {
        let (core, name) = (&self.core, self.core.keys.report(process));
        let loaded = core.look(&name, reading.until).await?;
        let Some((record, version)) = &loaded.found else {
            return Ok(None);
        };
        let Some((head, text)) = record.split_at_checked(HEAD) else {
            return Ok(None);
        };
        let stored = head[STAMP..].try_into().map_or(0, u64::from_be_bytes);
        let age = time_of(&loaded).saturating_sub(Duration::from_micros(stored));
        if age > FORGOTTEN {
            self.forget(&name, version, reading).await;
            let recalls = core.keys.recalls(process);
            if let Ok(Loaded {
                found: Some((_, version)),
                ..
            }) = core.look(&recalls, reading.until).await
            {
                self.forget(&recalls, &version, reading).await;
            }
        }
        Ok((age < REPORT_TTL).then(|| StoredReport {
            process,
            text: beginning(text),
            age: Some(age),
            revision: 0,
        }))
    }

    async fn forget(&self, name: &str, version: &Version, reading: Reading) {
        let _ = self
            .core
            .replace(name, Some(version), None, reading.until)
            .await;
    }
}

/// Returns the server's time of day, or this machine's.
fn time_of(loaded: &Loaded) -> Duration {
    let own = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    loaded.at.unwrap_or_else(|| own().unwrap_or_default())
}
