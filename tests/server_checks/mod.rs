//! The server check, on real servers: it warns of every unsafe setting, and of nothing else.

mod cluster;
mod quorum;
mod sentinel;
mod standalone;

use lock_runtime::{Config, LockError, LockManager, Warning, WarningKind};

use lock_test_support::manager::connected;
use lock_test_support::server::Server;

/// Options of a server that persists every write.
const KEEPS: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];

/// Starts such a server, changed by these options.
fn server(options: &[&str]) -> Server {
    let options = KEEPS.iter().chain(options);
    let options = options.map(|option| (*option).to_owned()).collect();
    Server::with(None, |_, _| options)
}

async fn warnings(config: impl Into<Config>) -> Vec<Warning> {
    let locks = connected(config).await;
    locks.check_servers().await
}

/// Asserts that `server` has exactly these warnings, and that each contains the given words.
#[track_caller]
fn assert_reported(warnings: &[Warning], server: &str, reported: &[(WarningKind, &str)]) {
    let of_server = || warnings.iter().filter(|warning| warning.server() == server);
    let kinds: Vec<_> = of_server().map(Warning::kind).collect();
    let expected: Vec<_> = reported.iter().map(|(danger, _)| *danger).collect();
    assert_eq!(kinds, expected, "{warnings:#?}");
    for (warning, (_, words)) in of_server().zip(reported) {
        let text = warning.to_string();
        assert!(text.contains(words), "`{words}` in `{text}`");
        assert!(text.contains(server), "{text}");
    }
}

/// Returns the server's name in warnings.
fn name(server: &Server) -> String {
    format!("redis://127.0.0.1:{}", server.port())
}

/// Connects with `refuse_unsafe_servers`, and acquires and releases a lock.
async fn strict(config: impl Into<Config>) -> Result<(), LockError> {
    let locks = LockManager::connect(config.into().refuse_unsafe_servers(true)).await?;
    locks.lock("row").acquire().await?.release().await
}
