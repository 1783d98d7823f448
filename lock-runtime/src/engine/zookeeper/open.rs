//! Opens an ensemble.

use crate::config::{Config, invalid};
use crate::engine::common::batches::Batches;
use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::opening::{OpenFuture, Opened, Opening, connect_error};
use crate::engine::zookeeper::ZooKeeperEngine;
use crate::engine::zookeeper::address::Address;
use crate::engine::zookeeper::conn::session::{Session, SessionContext};
use crate::engine::zookeeper::conn::session_limits::SessionLimits;
use crate::engine::zookeeper::conn::sessions::Sessions;
use crate::engine::zookeeper::lock::claims::Claims;
use crate::engine::zookeeper::wire::error::Failure;
use crate::error::LockError;
use crate::util::backoff::Backoff;
use crate::util::time::{deadline_in, now, sleep_until};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::time::Instant;

pub(crate) fn open<'a>(opening: Opening<'a>, url: &'a str) -> OpenFuture<'a> {
    Box::pin(open_ensemble(opening, url))
}

async fn open_ensemble(opening: Opening<'_>, url: &str) -> Result<Opened, LockError> {
    let Opening {
        config,
        timeouts,
        io,
        clock,
        process,
        handler,
    } = opening;
    let address = Address::parse(url, config)?;
    let shown: Arc<str> = address.to_string().into();
    let refused = |error: EngineError| {
        connect_error(shown.clone(), error, |server, error| {
            format!("`{server}` can't be used: {error}")
        })
    };
    // The work ends a little earlier, so that it names the reason.
    let (limit, deadline) = (
        deadline_in(timeouts.connect),
        deadline_in(timeouts.connect / 10 * 9),
    );
    let late = || {
        let words = "no reply within the connect timeout";
        EngineError::new(EngineErrorKind::NotConnected, words)
    };
    let asked = io.run_to_end(limit, async move {
        let limits = SessionLimits::ask(io, &address, deadline).await;
        limits.map(|(limits, first_try)| (address, limits, first_try))
    });
    let asked = asked.await.unwrap_or_else(|| Err(late()));
    let (address, limits, first_try) = asked.map_err(refused)?;
    check_ttl(config, limits)?;
    let context = SessionContext {
        io,
        address,
        timeouts,
        first_try,
        clock: clock.clone(),
        handler,
        tick: limits.tick(),
    };
    let sessions = Sessions::new(context, limits);
    let claims = Claims::new(sessions, config);
    let session = claims.sessions.of(config.ttl);
    let proven = io.run_to_end(limit, prove_rights(claims.clone(), session, deadline));
    let proven = proven.await.unwrap_or_else(|| Err(late()));
    proven.map_err(refused)?;
    let engine = ZooKeeperEngine {
        claims,
        address: shown.clone(),
        started: clock.now(),
        clock,
        default_ttl: config.ttl,
        own_report: Arc::default(),
        process,
        asks: OnceLock::new(),
        recalls: OnceLock::new(),
        texts: Batches::default(),
    };
    Ok((Arc::new(engine), shown))
}

/// Fails if no lock can have the default ttl.
fn check_ttl(config: &Config, limits: SessionLimits) -> Result<(), LockError> {
    let longest = limits.longest_ttl();
    if config.ttl <= longest {
        return Ok(());
    }
    Err(invalid(&format!(
        "the ttl of {:?} is longer than the {longest:?} for which the ZooKeeper ensemble allows it; set a \
         shorter one with `Config::ttl`, or raise `maxSessionTimeout` on all servers",
        config.ttl
    )))
}

/// Finds out whether the user may create nodes, by the node that proves the session.
async fn prove_rights(
    claims: Arc<Claims>,
    session: Arc<Session>,
    deadline: Instant,
) -> Result<(), EngineError> {
    let mut backoff = Backoff::new(Duration::from_millis(5), Duration::from_millis(100));
    let mut refused = None;
    loop {
        let proven = claims.prove(&session, deadline).await;
        match proven.map_err(Failure::into_error) {
            Err(error) if error.is_retryable() && now() < deadline => {
                refused = Some(error);
                sleep_until(deadline_in(backoff.pause())).await;
            }
            // The last one had no time: an earlier one says more.
            Err(error) if error.is_retryable() => return Err(refused.unwrap_or(error)),
            proven => return proven.map(drop),
        }
    }
}
