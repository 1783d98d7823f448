//! Connecting as the command line says.

use crate::args::Server;
use crate::exit::{CONFIGURATION, Failure, USAGE};
use crate::output::say;
use lock_runtime::{Config, LockEvent, LockManager, Report};
use std::path::Path;
use std::time::Duration;
use std::{env, fs};

/// Connects to look at locks, as a user who may do no more, and lets the processes report.
pub(crate) async fn connect_to_look(server: &Server) -> Result<LockManager, Failure> {
    reported(without_leases(server)?.check_permissions(false)).await
}

/// Connects to revoke locks, and lets the processes report.
pub(crate) async fn connect_to_revoke(server: &Server) -> Result<LockManager, Failure> {
    reported(without_leases(server)?).await
}

async fn reported(config: Config) -> Result<LockManager, Failure> {
    let locks = LockManager::connect(config).await?;
    // Whoever may not ask sees what was reported before.
    let _ = locks.ask_for_reports().await;
    Ok(locks)
}

/// Connects as a service does, by whose default ttl the servers are judged.
pub(crate) async fn connect_to_servers(server: &Server) -> Result<LockManager, Failure> {
    Ok(LockManager::connect(silent(server)?).await?)
}

/// Connects to find out whether a service could.
pub(crate) async fn connect_to_ping(server: &Server) -> Result<LockManager, Failure> {
    Ok(LockManager::connect(without_leases(server)?).await?)
}

/// Acquires no lock: an ensemble of ZooKeeper may allow short leases alone.
fn without_leases(server: &Server) -> Result<Config, Failure> {
    Ok(silent(server)?.ttl(Duration::from_secs(1)))
}

/// Makes no tables of PostgreSQL, and reports nothing.
fn silent(server: &Server) -> Result<Config, Failure> {
    Ok(config(server)?.create_schema(false).report(Report::Off))
}

/// Connects to acquire a lock with that ttl.
pub(crate) async fn connect(server: &Server, ttl: Duration) -> Result<LockManager, Failure> {
    // An operator may want the lock back at once.
    let config = config(server)?.ttl(ttl).report(Report::Live);
    let config = config.on_event(|event| {
        if let LockEvent::Revoked {
            key, by, reason, ..
        } = event
        {
            say(&format!("lock `{key}` is revoked by {by}: {reason}"));
        }
    });
    Ok(LockManager::connect(config).await?)
}

/// Says where nothing was found: another prefix or database may have it.
pub(crate) fn say_where(server: &Server) {
    let urls = server.url.as_deref().unwrap_or_default();
    let urls: Vec<_> = urls.split_whitespace().map(without_secrets).collect();
    let prefix = server.prefix();
    say(&format!(
        "this is the prefix `{prefix}` of `{}`",
        urls.join("`, `")
    ));
}

/// Returns a URL without user, password and parameters.
fn without_secrets(url: &str) -> String {
    let url = url.split('?').next().unwrap_or_default();
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let (_, address) = rest.rsplit_once('@').unwrap_or(("", rest));
    format!("{scheme}://{address}")
}

fn config(server: &Server) -> Result<Config, Failure> {
    let urls = server.url.as_deref().unwrap_or_default();
    let urls: Vec<_> = urls.split_whitespace().collect();
    let mut config = match urls[..] {
        [] => {
            let message = "no lock server is named: set `LOCK_URL`, or `--url`, to a URL like `redis://127.0.0.1/`; \
                           `sqlite:///var/lib/locks.db` needs no server";
            return Err(Failure::new(CONFIGURATION, message));
        }
        [url] => Config::new(url),
        _ => Config::quorum(urls),
    };
    if let Some(prefix) = &server.prefix {
        // As the services read it: the keys of an empty prefix are others than theirs.
        if prefix.trim().is_empty() && env::var("LOCK_PREFIX").as_ref() == Ok(prefix) {
            let message =
                "the environment variable `LOCK_PREFIX` is empty; give it a value, or unset it";
            return Err(Failure::new(CONFIGURATION, message));
        }
        config = config.prefix(prefix);
    }
    if let Some(authority) = &server.authority {
        config = config.root_certificate(read(authority)?);
    }
    config = match (&server.certificate, &server.private_key) {
        (Some(certificate), Some(key)) => config.client_certificate(read(certificate)?, read(key)?),
        (None, None) => config,
        _ => {
            let message = "a certificate needs its key, and a key its certificate: set both `--cert` and `--key`";
            return Err(Failure::new(USAGE, message));
        }
    };
    if let Some(timeout) = server.timeout {
        config = config.connect_timeout(timeout).command_timeout(timeout);
    }
    Ok(config)
}

fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(file).map_err(|error| {
        let message = format!("`{}` can't be read: {error}", file.display());
        Failure::new(CONFIGURATION, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_is_shown_without_secrets() {
        for (url, shown) in [
            ("redis://:s3cr@t@h:1/3", "redis://h:1/3"),
            ("redis+unix:///s?user=a&pass=s3cret", "redis+unix:///s"),
            ("etcd://ann:s3cret@h1,h2", "etcd://h1,h2"),
            ("memory://", "memory://"),
        ] {
            assert_eq!(without_secrets(url), shown);
        }
    }
}
