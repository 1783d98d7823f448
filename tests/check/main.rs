//! What makes lock servers unsafe is noticed, on real servers; and nothing else is.

mod alone;
mod cluster;
mod quorum;
mod sentinel;

use lock_runtime::{Config, LockError, LockManager, Warning, WarningKind};

use crate::support::manager::connected;
use crate::support::server::Server;

/// Of a server that keeps what it acknowledges.
const KEEPS: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];

/// Such a one, but for these options.
fn server(options: &[&str]) -> Server {
    let options = KEEPS.iter().chain(options);
    let options = options.map(|option| (*option).to_owned()).collect();
    Server::with(None, |_, _| options)
}

async fn warnings(config: impl Into<Config>) -> Vec<Warning> {
    let locks = connected(config).await;
    locks.check_servers().await
}

/// What may happen, and to whom; each of the warnings has these words in it.
#[track_caller]
fn assert_told(warnings: &[Warning], server: &str, told: &[(WarningKind, &str)]) {
    let of_server = || warnings.iter().filter(|warning| warning.server() == server);
    let kinds: Vec<_> = of_server().map(Warning::kind).collect();
    let expected: Vec<_> = told.iter().map(|(danger, _)| *danger).collect();
    assert_eq!(kinds, expected, "{warnings:#?}");
    for (warning, (_, words)) in of_server().zip(told) {
        let text = warning.to_string();
        assert!(text.contains(words), "`{words}` in `{text}`");
        assert!(text.contains(server), "{text}");
    }
}

/// As a manager calls a server of that URL.
fn name(server: &Server) -> String {
    format!("redis://127.0.0.1:{}", server.port())
}

/// Refuses what `check` warns of, and nothing else.
async fn strict(config: impl Into<Config>) -> Result<(), LockError> {
    let locks = LockManager::connect(config.into().refuse_unsafe_servers(true)).await?;
    locks.lock("row").acquire().await?.release().await
}
