//! The properties that a server reports: `INFO`, `CONFIG` and `TIME`.

use crate::engine::error::EngineError;
use crate::engine::inspection::{ClockOffset, ServerIdentity};
use crate::engine::redis::conn::connect::Connector;
use crate::engine::redis::conn::reconnect::ReconnectingConnection;
use crate::engine::redis::wire::error::redis_error;
use crate::util::time::deadline_in;
use redis::RedisError;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::time::Instant;

pub(crate) struct ServerInfo {
    pub(crate) server: Arc<str>,
    info: HashMap<String, String>,
    /// The settings by name, or why they cannot be read.
    config: Result<HashMap<String, String>, String>,
    /// `None` if the server does not report its time.
    pub(crate) clock: Option<ClockOffset>,
}

const CONFIG_NAMES: [&str; 3] = ["appendfsync", "min-replicas-*", "cluster-node-timeout"];

impl ServerInfo {
    /// Queries a server, on a connection of its own.
    pub(crate) async fn fetch(connector: Connector) -> Result<ServerInfo, EngineError> {
        let (io, timeout) = (connector.io, connector.timeouts.connect);
        let (server, deadline) = (connector.discovery.to_string(), deadline_in(timeout));
        let (connection, first) = ReconnectingConnection::connect(connector);
        let connected = io.timeout_at(deadline, first.result()).await;
        connected.unwrap_or_else(|_| Err(EngineError::no_reply()))?;
        let info: String = connection.ask(&["INFO"], deadline).await?;
        let before = milliseconds_now();
        let time = connection.ask(&["TIME"], deadline).await;
        Ok(ServerInfo {
            server: server.into(),
            info: fields(&info),
            clock: time
                .ok()
                .map(|time| clock_offset(time, before, milliseconds_now())),
            config: read_config(&connection, deadline).await.map_err(|error| {
                let words = redis_error(&error).and_then(RedisError::detail);
                format!("`CONFIG GET`: {}", words.unwrap_or("it is refused"))
            }),
        })
    }

    pub(crate) fn identity(&self) -> ServerIdentity {
        ServerIdentity {
            address: self.server.clone(),
            run_id: self.info("run_id").to_owned(),
            replication_id: self.info("master_replid").to_owned(),
            clock: self.clock,
        }
    }

    /// Returns a field of `INFO`, or an empty string if it is missing.
    pub(crate) fn info(&self, name: &str) -> &str {
        self.info.get(name).map_or("", String::as_str)
    }

    pub(crate) fn info_u64(&self, name: &str) -> u64 {
        self.info(name).parse().unwrap_or(0)
    }

    /// Returns a setting, or why it cannot be read.
    pub(crate) fn config(&self, name: &str) -> Result<&str, &str> {
        match &self.config {
            Ok(config) => Ok(config.get(name).map_or("", String::as_str)),
            Err(error) => Err(error),
        }
    }

    /// Returns `true` if the server is a replica of `master`.
    pub(crate) fn is_replica_of(&self, master: &ServerInfo) -> bool {
        let history = "master_replid";
        self.info("role") == "slave"
            && master.info("role") == "master"
            && self.info(history) == master.info(history)
    }

    /// Returns the addresses of the server's replicas.
    pub(crate) fn replicas(&self) -> Vec<(String, u16)> {
        // Count the listed replicas: `connected_slaves` may be any number.
        (0..)
            .map_while(|n| self.info.get(&format!("slave{n}")))
            .filter_map(|line| {
                let part = |name| line.split(',').find_map(|part| part.strip_prefix(name));
                Some((part("ip=")?.to_owned(), part("port=")?.parse().ok()?))
            })
            .collect()
    }
}

async fn read_config(
    connection: &ReconnectingConnection,
    deadline: Instant,
) -> Result<HashMap<String, String>, EngineError> {
    let mut config = HashMap::new();
    for name in CONFIG_NAMES {
        let words = ["CONFIG", "GET", name];
        let some: HashMap<String, String> = connection.ask(&words, deadline).await?;
        config.extend(some);
    }
    Ok(config)
}

fn fields(info: &str) -> HashMap<String, String> {
    let fields = info.lines().filter_map(|line| line.split_once(':'));
    fields
        .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
        .collect()
}

fn milliseconds_now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| i64::try_from(now.as_millis()).unwrap_or(0))
}

/// Computes the offset from the reply, at `after`, to a `TIME` that was sent at `before`, by our
/// clock.
fn clock_offset((seconds, micros): (i64, i64), before: i64, after: i64) -> ClockOffset {
    let server = seconds.saturating_mul(1000).saturating_add(micros / 1000);
    ClockOffset {
        min_ms: server.saturating_sub(after).saturating_sub(1),
        max_ms: server.saturating_sub(before).saturating_add(1),
    }
}

#[cfg(test)]
impl ServerInfo {
    pub(crate) fn for_test(info: &str, config: Result<&[(&str, &str)], &str>) -> ServerInfo {
        let owned = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter();
            pairs
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect()
        };
        ServerInfo {
            server: "redis://a:6379".into(),
            info: fields(info),
            config: config.map(owned).map_err(str::to_owned),
            clock: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn replicas_are_parsed() {
        let server = ServerInfo::for_test(
            "# Replication\r\nrole:master\r\nconnected_slaves:2\r\n\
             slave0:ip=10.0.0.2,port=6380,state=online,offset=14,lag=1\r\n\
             slave1:ip=::1,port=6381,state=wait_bgsave,offset=0,lag=0\r\n",
            Ok(&[]),
        );
        assert_eq!(server.info("role"), "master");
        let replicas = [("10.0.0.2".to_owned(), 6380), ("::1".to_owned(), 6381)];
        assert_eq!(server.replicas(), replicas);
        assert!(
            ServerInfo::for_test("connected_slaves:1\r\n", Ok(&[]))
                .replicas()
                .is_empty()
        );
    }

    #[test]
    fn replicas_that_are_not_listed_are_not_counted() {
        let server = ServerInfo::for_test(
            "connected_slaves:18446744073709551615\r\nslave0:ip=a,port=1\r\nslave1:nonsense\r\n\
             slave2:ip=b,port=2\r\n",
            Ok(&[]),
        );
        assert_eq!(
            server.replicas(),
            [("a".to_owned(), 1), ("b".to_owned(), 2)]
        );
    }

    #[test]
    fn any_reply_to_time_is_accepted() {
        for (seconds, micros) in [(i64::MIN, i64::MIN), (i64::MAX, i64::MAX), (i64::MAX, 0)] {
            let odd = clock_offset((seconds, micros), 1_700_000_000_000, 1_700_000_000_001);
            let own = clock_offset((1_700_000_000, 0), 1_700_000_000_000, 1_700_000_000_001);
            assert!(odd.skew(own) > Duration::from_secs(1));
            assert_eq!(odd.skew(own), own.skew(odd));
        }
    }

    #[test]
    fn skew_is_the_least_possible_difference() {
        let clock = |min_ms, max_ms| ClockOffset { min_ms, max_ms };
        let skew = |a: ClockOffset, b: ClockOffset| a.skew(b).as_millis();
        assert_eq!(skew(clock(-5, 5), clock(0, 10)), 0);
        assert_eq!(skew(clock(-5, 5), clock(100, 110)), 95);
        assert_eq!(skew(clock(100, 110), clock(-5, 5)), 95);
    }
}
