//! Finds settings of the server that endanger locks.

use crate::engine::mysql::conn::batch::rows;
use crate::engine::mysql::store::MySqlStore;
use crate::engine::store::database::{Database, Finding};
use crate::own_store::{StoreError, StoreFuture};
use crate::warning::WarningKind;
use std::collections::HashMap;

/// All that is asked may be read by any user.
const SETTINGS: &str = "SHOW GLOBAL VARIABLES WHERE variable_name IN \
     ('innodb_flush_log_at_trx_commit', 'innodb_doublewrite', 'log_bin', 'sync_binlog')";

/// The replicas that are connected, if the user may see them, which takes the right `PROCESS`.
const REPLICAS: &str =
    "SELECT COUNT(*) FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'";

/// Whether commits wait for a replica, by the old name or the new one.
const WAITS: &str = "SHOW GLOBAL STATUS WHERE value = 'ON' AND variable_name IN \
     ('Rpl_semi_sync_master_status', 'Rpl_semi_sync_source_status')";

impl Database for MySqlStore {
    fn findings(&self) -> StoreFuture<'_, Vec<Finding>> {
        Box::pin(async move {
            let settings = rows(self.run(SETTINGS.to_owned()).await?)?;
            let mut findings = not_flushed(&settings.into_iter().collect());
            findings.extend(self.asynchronous_replicas().await?);
            if !self.connection().await?.is_sole {
                let words = "it is reached through a proxy, or others accept writes, too";
                findings.push((WarningKind::Pooler, words.to_owned()));
            }
            Ok(findings)
        })
    }
}

impl MySqlStore {
    async fn asynchronous_replicas(&self) -> Result<Option<Finding>, StoreError> {
        let replicas = rows::<u64>(self.run(REPLICAS.to_owned()).await?)?;
        let waits = self.run(WAITS.to_owned()).await?;
        let replicas = replicas
            .first()
            .filter(|it| **it > 0 && waits.rows.is_empty());
        Ok(replicas.map(|count| {
            let finding =
                format!("{count} replicas or others read its log, and commits wait for none");
            (WarningKind::AsynchronousStandby, finding)
        }))
    }
}

fn not_flushed(settings: &HashMap<String, String>) -> Vec<Finding> {
    let value = |name| settings.get(name).map_or("", String::as_str);
    let flushes = value("innodb_flush_log_at_trx_commit");
    // MariaDB's 3 flushes twice.
    let (flushes, twice) = (matches!(flushes, "1" | "3"), flushes == "3");
    let logs = matches!(value("log_bin"), "ON" | "1");
    let mut findings = Vec::new();
    let mut check = |name, is_safe: fn(&str) -> bool| {
        if !is_safe(value(name)) {
            let finding = format!("`{name}` is {}", value(name));
            findings.push((WarningKind::NotFlushed, finding));
        }
    };
    if !flushes {
        check("innodb_flush_log_at_trx_commit", |_| false);
    }
    check("innodb_doublewrite", |it| {
        !matches!(it, "OFF" | "0" | "DETECT_ONLY")
    });
    if logs && !twice {
        // What the log has not, a crash undoes.
        check("sync_binlog", |it| it == "1");
    }
    findings
}
