//! Warnings about servers.

use crate::api::manager::LockManager;
use crate::engine::etcd::tests::scripted_server::ScriptedServer;
use crate::warning::{Warning, WarningKind};

async fn warnings(server: &ScriptedServer) -> Vec<Warning> {
    let locks = LockManager::connect(server.config()).await.unwrap();
    let warnings = locks.check_servers().await;
    locks.shutdown().await;
    warnings
}

/// A cluster does not say whether it is set to compact its history.
#[tokio::test]
async fn a_long_history_that_was_never_compacted_is_a_warning() {
    for (revisions, is_compacted, is_reported) in [
        (200_000, false, true),
        (200_000, true, false),
        (1000, false, false),
    ] {
        let server = ScriptedServer::start().await;
        server.have_history(revisions, is_compacted);
        let warnings = warnings(&server).await;
        let mut kinds = warnings.iter().map(Warning::kind);
        assert!(
            !kinds.clone().any(|it| it == WarningKind::NotChecked),
            "{warnings:?}"
        );
        let reported = kinds.any(|kind| kind == WarningKind::NeverCompacted);
        assert_eq!(
            reported, is_reported,
            "{revisions} {is_compacted}: {warnings:?}"
        );
        if reported {
            let text = format!("{warnings:?}");
            assert!(text.contains("history of 2000"), "{text}");
        }
    }
}
