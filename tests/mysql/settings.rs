//! Settings of a server that endanger locks.

use lock_runtime::WarningKind::{self, NotChecked, NotFlushed};

use lock_test_support::manager::connected;
use lock_test_support::mariadb::MariaDb;
use lock_test_support::time::{millis, patient};

/// With them, the server keeps what it has confirmed.
pub const SAFE: [&str; 3] = [
    "--innodb-flush-log-at-trx-commit=1",
    "--log-bin=log",
    "--sync-binlog=1",
];

async fn found(server: &MariaDb) -> Vec<(WarningKind, String)> {
    let locks = connected(patient(server.url())).await;
    let warnings = locks.check_servers().await;
    locks.shutdown().await;
    let warnings = warnings.iter();
    let of = |it: &lock_runtime::Warning| (it.kind(), it.finding().to_owned());
    warnings.map(of).collect()
}

#[tokio::test]
async fn server_that_flushes_each_commit_has_no_warnings() {
    assert_eq!(found(&MariaDb::with(&SAFE)).await, []);
}

#[tokio::test]
async fn settings_by_which_a_crash_undoes_commits_are_found() {
    let unsafe_ones = [
        (
            "innodb-flush-log-at-trx-commit=2",
            "`innodb_flush_log_at_trx_commit` is 2",
        ),
        ("innodb-doublewrite=OFF", "`innodb_doublewrite` is OFF"),
        ("sync-binlog=0", "`sync_binlog` is 0"),
    ];
    for (setting, finding) in unsafe_ones {
        let setting = format!("--{setting}");
        let settings: Vec<_> = SAFE.into_iter().chain([&*setting]).collect();
        let server = MariaDb::with(&settings);
        assert_eq!(found(&server).await, [(NotFlushed, finding.to_owned())]);
    }
    // Nothing is read from a log that is not written.
    let mut safe = vec![vec![SAFE[0], "--sync-binlog=0"]];
    if !MariaDb::is_mysql() {
        safe.push(vec![
            "--innodb-flush-log-at-trx-commit=3",
            SAFE[1],
            "--sync-binlog=0",
        ]);
    }
    for settings in safe {
        assert_eq!(found(&MariaDb::with(&settings)).await, []);
    }
}

#[tokio::test]
async fn server_that_does_not_reply_is_not_checked() {
    let mut server = MariaDb::with(&SAFE);
    let config = lock_runtime::Config::new(server.url()).connect_timeout(millis(1000));
    let locks = connected(config).await;
    server.pause();
    let warnings = locks.check_servers().await;
    server.resume();
    let kinds: Vec<_> = warnings.iter().map(|it| it.kind()).collect();
    assert_eq!(kinds, [NotChecked], "{warnings:?}");
    locks.shutdown().await;
}
