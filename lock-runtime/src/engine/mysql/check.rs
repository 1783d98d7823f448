//! Finds settings of the server that endanger locks.

use crate::engine::mysql::conn::batch::rows;
use crate::engine::mysql::store::MySqlStore;
use crate::engine::store::database::{Database, Finding};
use crate::own_store::StoreFuture;
use crate::warning::WarningKind;
use std::collections::HashMap;
use tokio::try_join;

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
            let ask = |text: &str| self.run(text.to_owned());
            let replies = try_join!(ask(SETTINGS), ask(REPLICAS), ask(WAITS));
            let (settings, replicas, waits) = replies?;
            let mut findings = not_flushed(&rows(settings)?.into_iter().collect());
            let replicas = rows::<u64>(replicas)?.into_iter().sum::<u64>();
            if replicas > 0 && waits.rows.is_empty() {
                let words = format!(
                    "{replicas} replicas or others read its log, and commits wait for none"
                );
                findings.push((WarningKind::AsynchronousStandby, words));
            }
            if !self.connection().await?.is_sole {
                let words = "it is reached through a proxy, or others accept writes, too";
                findings.push((WarningKind::Pooler, words.to_owned()));
            }
            Ok(findings)
        })
    }
}

fn not_flushed(settings: &HashMap<String, String>) -> Vec<Finding> {
    let value = |name| settings.get(name).map_or("", String::as_str);
    let (flush, log) = ("innodb_flush_log_at_trx_commit", "sync_binlog");
    let logs = matches!(value("log_bin"), "ON" | "1");
    let doubled = "innodb_doublewrite";
    let dangers = [
        (flush, !matches!(value(flush), "1" | "3")),
        (
            doubled,
            matches!(value(doubled), "OFF" | "0" | "DETECT_ONLY"),
        ),
        // A crash undoes what the log has not, unless the tables are flushed for themselves: MariaDB's 3.
        (log, logs && value(flush) != "3" && value(log) != "1"),
    ];
    let dangers = dangers.into_iter().filter(|(_, endangers)| *endangers);
    let finding = |name| {
        (
            WarningKind::NotFlushed,
            format!("`{name}` is {}", value(name)),
        )
    };
    dangers.map(|(name, _)| finding(name)).collect()
}
