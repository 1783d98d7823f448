//! Finds out whether the server can be reached, and which of its settings endanger locks.

use crate::engine::inspection::Inspection;
use crate::engine::store::StoreEngine;
use crate::util::time::deadline_in;
use crate::warning::Warning;

impl StoreEngine {
    pub(crate) async fn check(&self) -> Inspection {
        let (core, deadline) = (&self.core, deadline_in(self.connect_timeout));
        let found = match &core.database {
            Some(database) => core.by(deadline, database.findings()).await,
            None => {
                let looked = core.look(&core.keys.asks, deadline).await;
                looked.map(|_| Vec::new())
            }
        };
        let mut inspection = Inspection::default();
        match found {
            Ok(findings) => {
                let warnings = findings.into_iter();
                let warnings = warnings.map(|(kind, it)| Warning::new(&self.server, kind, it));
                inspection.warnings.extend(warnings);
            }
            Err(error) => inspection.add_unreachable(&self.server, &error),
        }
        inspection
    }
}
