//! What a server says about itself.

use crate::engine::error::{EngineError, Fault};
use crate::engine::inspection::{ClockOffset, ServerIdentity};
use crate::engine::redis::net::target::Target;
use crate::util::io_thread::{Io, after};
use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub(crate) struct Facts {
    pub(crate) server: Arc<str>,
    information: HashMap<String, String>,
    /// By name, or why they can't be asked for.
    settings: Result<HashMap<String, String>, String>,
    /// None if it can't be asked.
    pub(crate) clock: Option<ClockOffset>,
}

const SETTINGS: [&str; 3] = ["appendfsync", "min-replicas-*", "cluster-node-timeout"];

impl Facts {
    /// Asks a server on a connection of its own.
    pub(crate) async fn of(
        io: Io,
        target: Arc<Target>,
        patience: Duration,
    ) -> Result<Facts, EngineError> {
        let asked = io.spawn(async move {
            let until = after(patience);
            tokio::time::timeout_at(until, ask(&target)).await
        });
        match asked.await {
            Ok(Ok(Ok(facts))) => Ok(facts),
            Ok(Ok(Err(error))) => Err(EngineError::new(Fault::Refused, error)),
            _ => {
                let words = format!("no answer within {patience:?}");
                Err(EngineError::new(Fault::Down, words))
            }
        }
    }

    pub(crate) fn identity(&self) -> ServerIdentity {
        ServerIdentity {
            address: self.server.clone(),
            run_id: self.field("run_id").to_owned(),
            replication_id: self.field("master_replid").to_owned(),
            clock: self.clock,
        }
    }

    /// A field of `INFO`; empty if there is none.
    pub(crate) fn field(&self, name: &str) -> &str {
        self.information.get(name).map_or("", String::as_str)
    }

    pub(crate) fn number(&self, name: &str) -> u64 {
        self.field(name).parse().unwrap_or(0)
    }

    /// A setting, or why it can't be had.
    pub(crate) fn setting(&self, name: &str) -> Result<&str, &str> {
        match &self.settings {
            Ok(settings) => Ok(settings.get(name).map_or("", String::as_str)),
            Err(error) => Err(error),
        }
    }

    /// Whether it is a replica of that master.
    pub(crate) fn follows(&self, master: &Facts) -> bool {
        let history = "master_replid";
        self.field("role") == "slave"
            && master.field("role") == "master"
            && self.field(history) == master.field(history)
    }

    /// The addresses of the replicas that follow it.
    pub(crate) fn replicas(&self) -> Vec<(String, u16)> {
        // As many as are listed; the number that is told may be any.
        (0..)
            .map_while(|n| self.information.get(&format!("slave{n}")))
            .filter_map(|line| {
                let part = |name| line.split(',').find_map(|part| part.strip_prefix(name));
                Some((part("ip=")?.to_owned(), part("port=")?.parse().ok()?))
            })
            .collect()
    }
}

async fn ask(target: &Target) -> Result<Facts, redis::RedisError> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(None)
        .set_response_timeout(None);
    let client = &target.client;
    let connection = client.get_multiplexed_async_connection_with_config(&config);
    let mut redis = connection.await?;
    let information: String = redis::cmd("INFO").query_async(&mut redis).await?;
    Ok(Facts {
        server: target.to_string().into(),
        information: fields(&information),
        clock: clock(&mut redis).await,
        settings: settings(&mut redis).await.map_err(|error| {
            let words = error.detail().unwrap_or("it is refused").to_owned();
            format!("`CONFIG GET`: {words}")
        }),
    })
}

async fn clock(redis: &mut MultiplexedConnection) -> Option<ClockOffset> {
    let before = milliseconds_now();
    let time = redis::cmd("TIME").query_async(redis).await;
    Some(clock_offset(time.ok()?, before, milliseconds_now()))
}

async fn settings(
    redis: &mut MultiplexedConnection,
) -> Result<HashMap<String, String>, redis::RedisError> {
    let mut settings = HashMap::new();
    for name in SETTINGS {
        let mut command = redis::cmd("CONFIG");
        command.arg("GET").arg(name);
        let some: HashMap<String, String> = command.query_async(redis).await?;
        settings.extend(some);
    }
    Ok(settings)
}

fn fields(information: &str) -> HashMap<String, String> {
    let fields = information.lines().filter_map(|line| line.split_once(':'));
    fields
        .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
        .collect()
}

fn milliseconds_now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| i64::try_from(now.as_millis()).unwrap_or(0))
}

/// Reads the reply to a `TIME` that was sent and answered at these times of ours.
fn clock_offset((seconds, micros): (i64, i64), before: i64, after: i64) -> ClockOffset {
    let server = seconds.saturating_mul(1000).saturating_add(micros / 1000);
    ClockOffset {
        min_ms: server.saturating_sub(after).saturating_sub(1),
        max_ms: server.saturating_sub(before).saturating_add(1),
    }
}

#[cfg(test)]
impl Facts {
    pub(crate) fn said(information: &str, settings: Result<&[(&str, &str)], &str>) -> Facts {
        let owned = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter();
            pairs
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect()
        };
        Facts {
            server: "redis://a:6379".into(),
            information: fields(information),
            settings: settings.map(owned).map_err(str::to_owned),
            clock: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_are_read() {
        let facts = Facts::said(
            "# Replication\r\nrole:master\r\nconnected_slaves:2\r\n\
             slave0:ip=10.0.0.2,port=6380,state=online,offset=14,lag=1\r\n\
             slave1:ip=::1,port=6381,state=wait_bgsave,offset=0,lag=0\r\n",
            Ok(&[]),
        );
        assert_eq!(facts.field("role"), "master");
        let replicas = [("10.0.0.2".to_owned(), 6380), ("::1".to_owned(), 6381)];
        assert_eq!(facts.replicas(), replicas);
        assert!(
            Facts::said("connected_slaves:1\r\n", Ok(&[]))
                .replicas()
                .is_empty()
        );
    }

    #[test]
    fn replicas_that_are_not_listed_are_not_counted() {
        let facts = Facts::said(
            "connected_slaves:18446744073709551615\r\nslave0:ip=a,port=1\r\nslave1:nonsense\r\n\
             slave2:ip=b,port=2\r\n",
            Ok(&[]),
        );
        assert_eq!(facts.replicas(), [("a".to_owned(), 1), ("b".to_owned(), 2)]);
    }

    #[test]
    fn a_clock_may_say_anything() {
        for (seconds, micros) in [(i64::MIN, i64::MIN), (i64::MAX, i64::MAX), (i64::MAX, 0)] {
            let odd = clock_offset((seconds, micros), 1_700_000_000_000, 1_700_000_000_001);
            let own = clock_offset((1_700_000_000, 0), 1_700_000_000_000, 1_700_000_000_001);
            assert!(odd.skew(own) > Duration::from_secs(1));
            assert_eq!(odd.skew(own), own.skew(odd));
        }
    }

    #[test]
    fn clocks_are_apart_as_far_as_is_certain() {
        let clock = |min_ms, max_ms| ClockOffset { min_ms, max_ms };
        let skew = |a: ClockOffset, b: ClockOffset| a.skew(b).as_millis();
        assert_eq!(skew(clock(-5, 5), clock(0, 10)), 0);
        assert_eq!(skew(clock(-5, 5), clock(100, 110)), 95);
        assert_eq!(skew(clock(100, 110), clock(-5, 5)), 95);
    }
}
