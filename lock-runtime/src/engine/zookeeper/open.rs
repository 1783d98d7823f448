//! Opens an ensemble.

use crate::config::{Config, invalid};
use crate::engine::common::pace::MIN_TIMEOUT;
use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::opening::{OpenFuture, Opened, Opening, connect_error};
use crate::engine::zookeeper::ZooKeeperEngine;
use crate::engine::zookeeper::address::Address;
use crate::engine::zookeeper::conn::session::SessionContext;
use crate::engine::zookeeper::conn::sessions::{SessionLimits, Sessions};
use crate::engine::zookeeper::conn::tries::Tries;
use crate::engine::zookeeper::lock::claims::Claims;
use crate::engine::zookeeper::wire::error::Failure;
use crate::error::LockError;
use crate::util::backoff::Backoff;
use crate::util::time::{deadline_in, elapsed_since, now, sleep_until};
use std::sync::Arc;
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
        handler,
    } = opening;
    let address = Address::parse(url, config)?;
    let shown: Arc<str> = address.to_string().into();
    let refused = |error: EngineError| {
        connect_error(shown.clone(), error, |server, error| {
            format!("`{server}` can't be used: {error}")
        })
    };
    // The work ends a little earlier, so that it tells the reason.
    let (limit, deadline) = (
        deadline_in(timeouts.connect),
        deadline_in(timeouts.connect / 10 * 9),
    );
    let late = || {
        let words = "no reply within the connect timeout";
        EngineError::new(EngineErrorKind::NotConnected, words)
    };
    let asked = io.run_to_end(limit, async move {
        let limits = session_limits(&address, deadline).await;
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
    let sessions = Sessions::new(context, io, limits);
    let claims = Claims::new(sessions, io, config);
    let session = claims.sessions.of(config.ttl);
    let proving = claims.clone();
    // Finds out whether the user may create nodes.
    let proven = io.run_to_end(limit, async move {
        let mut backoff = Backoff::new(Duration::from_millis(5), Duration::from_millis(100));
        let mut refused = None;
        loop {
            let proven = proving.prove(&session, deadline).await;
            match proven.map_err(Failure::into_error) {
                Err(error) if error.is_retryable() && now() < deadline => {
                    refused = Some(error);
                    sleep_until(deadline_in(backoff.pause())).await;
                }
                // The last one had no time: an earlier one tells more.
                Err(error) if error.is_retryable() => return Err(refused.unwrap_or(error)),
                proven => return proven.map(drop),
            }
        }
    });
    let proven = proven.await.unwrap_or_else(|| Err(late()));
    proven.map_err(refused)?;
    let engine = ZooKeeperEngine {
        claims,
        address: shown.clone(),
        started: clock.now(),
        clock,
    };
    Ok((Arc::new(engine), shown))
}

/// Asks the servers, one after the other, for the shortest and the longest session. Returns them with the time that
/// a server is to get for a connection at first.
async fn session_limits(
    address: &Address,
    deadline: Instant,
) -> Result<(SessionLimits, Duration), EngineError> {
    let mut limit = MIN_TIMEOUT;
    let mut backoff = Backoff::new(Duration::from_millis(5), Duration::from_millis(100));
    let mut tries = Tries::begin(address.hosts.len(), now());
    for (number, host) in address.hosts.iter().enumerate().cycle() {
        let left = deadline.saturating_duration_since(now());
        // A try that has no time tells less than the one before.
        if left.is_zero() || (left < MIN_TIMEOUT && tries.include_all()) {
            break;
        }
        let ask = async |timeout| address.negotiate(host, timeout, limit.min(left)).await;
        let (longest, asked_at) = (Duration::from_millis(i32::MAX as u64), now());
        let asked = match ask(Duration::from_millis(1)).await {
            Ok(shortest) => ask(longest).await.map(|longest| (shortest, longest)),
            Err(error) => Err(error),
        };
        match asked {
            Ok((shortest, longest)) => {
                let first_try = MIN_TIMEOUT.max(elapsed_since(asked_at));
                return Ok((SessionLimits { shortest, longest }, first_try));
            }
            Err(error) => tries.add(number, &error),
        }
        limit *= 2;
        sleep_until(deadline_in(backoff.pause()).min(deadline)).await;
    }
    Err(tries.into_error())
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
