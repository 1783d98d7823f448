//! A server's address, and how to connect to it.

use crate::config::Config;
use crate::engine::credentials::Credentials;
#[cfg(feature = "tls")]
use crate::engine::tls::{Encrypted, client_config, encrypt, has_certificates};
use crate::engine::url::{NodeAddress, format_address};
use crate::error::LockError;
use redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
use redis::{
    ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion, RedisConnectionInfo,
};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A server's address with everything needed to authenticate. Displays the address only.
#[derive(Clone)]
pub(crate) struct Address {
    /// Without user and password.
    info: ConnectionInfo,
    pub(crate) credentials: Credentials,
    #[cfg(feature = "tls")]
    tls: Option<Arc<rustls::ClientConfig>>,
}

impl Address {
    /// Parses a URL; the credentials of the configuration override those in it.
    pub(crate) fn parse(url: &str, config: &Config) -> Result<Address, LockError> {
        check_tls(url.starts_with("rediss:"))?;
        check_parameters(url)?;
        let hosts = url.split(['/', '?']).nth(2).unwrap_or_default();
        if hosts.rsplit('@').next().unwrap_or_default().contains(',') {
            let reason = "a `redis://` URL names one server; name those of a Cluster by `redis-cluster://`, Sentinels by \
                          `redis-sentinel://`, and a quorum by several URLs";
            return Err(invalid(reason, None));
        }
        let info = url.into_connection_info().map_err(|error| {
            invalid(
                "the URL can't be read; write `redis://user:password@host:port/db`, with special \
                 characters in the password percent-encoded",
                Some(error),
            )
        })?;
        let settings = info.redis_settings();
        let in_url = settings.password().map(|password| {
            let user = settings.username().unwrap_or_default();
            (user.to_owned(), password.to_owned())
        });
        let credentials = Credentials::of(config, in_url);
        Address::new(info, credentials, config)
    }

    /// Returns the address at that host and port.
    pub(crate) fn at(
        (host, port): (&str, u16),
        tls: bool,
        database: i64,
        credentials: Credentials,
        config: &Config,
    ) -> Result<Address, LockError> {
        check_tls(tls)?;
        let host = host.to_owned();
        let addr = match tls {
            true => ConnectionAddr::TcpTls {
                host,
                port,
                insecure: false,
                tls_params: None,
            },
            false => ConnectionAddr::Tcp(host, port),
        };
        let info = addr.into_connection_info().map_err(invalid_address)?;
        let redis = info.redis_settings().clone().set_db(database);
        Address::new(info.set_redis_settings(redis), credentials, config)
    }

    #[cfg_attr(not(feature = "tls"), expect(unused_variables))]
    fn new(
        info: ConnectionInfo,
        credentials: Credentials,
        config: &Config,
    ) -> Result<Address, LockError> {
        Ok(Address {
            #[cfg(feature = "tls")]
            tls: match info.addr() {
                ConnectionAddr::TcpTls { .. } => Some(Arc::new(client_config(config)?)),
                // Others are not used, but invalid ones are refused.
                _ if has_certificates(config) => Some(Arc::new(client_config(config)?)),
                _ => None,
            },
            info: with_settings(info),
            credentials,
        })
    }

    /// Encrypts a stream with TLS.
    #[cfg(feature = "tls")]
    pub(crate) async fn encrypt<S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin>(
        &self,
        host: &str,
        stream: S,
    ) -> std::io::Result<Encrypted<S>> {
        let missing = || std::io::Error::other("the certificates can't be used");
        let tls = self.tls.as_ref().ok_or_else(missing)?;
        encrypt(tls, host, stream).await
    }

    /// Returns the address of another server, which is connected to in the same way.
    pub(crate) fn with_host(&self, (host, port): &NodeAddress) -> Address {
        let mut addr = self.addr().clone();
        match &mut addr {
            ConnectionAddr::Tcp(old_host, old_port)
            | ConnectionAddr::TcpTls {
                host: old_host,
                port: old_port,
                ..
            } => {
                old_host.clone_from(host);
                *old_port = *port;
            }
            ConnectionAddr::Unix(_) => addr = ConnectionAddr::Tcp(host.clone(), *port),
            _ => {}
        }
        Address {
            info: self.info.clone().set_addr(addr),
            ..self.clone()
        }
    }

    pub(crate) fn has_tls(&self) -> bool {
        matches!(self.addr(), ConnectionAddr::TcpTls { .. })
    }

    pub(crate) fn addr(&self) -> &ConnectionAddr {
        self.info.addr()
    }

    pub(crate) fn tcp_settings(&self) -> &TcpSettings {
        self.info.tcp_settings()
    }

    /// Returns the database, and the protocol that the URL names.
    pub(crate) fn database(&self) -> (i64, ProtocolVersion) {
        let settings = self.info.redis_settings();
        (settings.db(), settings.protocol())
    }
}

fn with_settings(info: ConnectionInfo) -> ConnectionInfo {
    let from_url = info.redis_settings();
    let redis = RedisConnectionInfo::default()
        .set_db(from_url.db())
        .set_protocol(from_url.protocol());
    let keepalive = TcpKeepalive::new()
        .with_time(Duration::from_secs(10))
        .with_interval(Duration::from_secs(5));
    let tcp = TcpSettings::default()
        .set_nodelay(true)
        .set_keepalive(keepalive);
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let tcp = tcp.set_user_timeout(Duration::from_secs(10));
    info.set_redis_settings(redis).set_tcp_settings(tcp)
}

/// Fails if the URL has an unknown parameter, which the driver would ignore, or asks for TLS without
/// certificates.
fn check_parameters(url: &str) -> Result<(), LockError> {
    let known: &[&str] = match url.split_once(':') {
        Some(("redis" | "rediss" | "valkey" | "valkeys", _)) => &["protocol"],
        _ => &["db", "user", "pass", "protocol"],
    };
    let url = redis::parse_redis_url(url);
    if url.iter().any(|url| url.fragment().is_some()) {
        return Err(invalid(
            "the URL has a `#`; write it as `%23` in a password. Certificates are always checked: \
             `#insecure` is not possible, name the authority with `root_certificate`",
            None,
        ));
    }
    let mut parameters = url.iter().flat_map(|url| url.query_pairs());
    match parameters.all(|(name, _)| known.contains(&&*name)) {
        true => Ok(()),
        false => Err(invalid(
            "the URL has a parameter that is not known; write `redis://user:password@host:port/db` \
             or `redis+unix:///path?db=0&user=…&pass=…`, with a `?` in the password as `%3F`",
            None,
        )),
    }
}

fn check_tls(wanted: bool) -> Result<(), LockError> {
    if wanted && !cfg!(feature = "tls") {
        return Err(invalid(
            "a URL that begins with `rediss` needs TLS; enable the feature `tls` of `lock-runtime`",
            None,
        ));
    }
    Ok(())
}

fn invalid_address(error: redis::RedisError) -> LockError {
    invalid("the server can't be used as given", Some(error))
}

pub(crate) fn invalid(reason: &str, source: Option<redis::RedisError>) -> LockError {
    LockError::InvalidConfig {
        reason: reason.to_owned(),
        source: source.map(|error| Arc::new(error) as _),
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.addr() {
            ConnectionAddr::TcpTls { .. } => "rediss",
            ConnectionAddr::Unix(_) => "redis+unix",
            _ => "redis",
        };
        match self.addr() {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                write!(f, "{scheme}://{}", format_address(&(host.clone(), *port)))
            }
            address => write!(f, "{scheme}://{address}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_as_it_is_written_in_a_url() {
        for (url, shown) in [
            ("redis://u:secret@h", "redis://h:6379"),
            ("redis://[2001:db8::2]:1/3", "redis://[2001:db8::2]:1"),
            (
                "redis+unix:///run/redis.sock",
                "redis+unix:///run/redis.sock",
            ),
        ] {
            let address = Address::parse(url, &Config::new(url)).unwrap();
            assert_eq!(address.to_string(), shown);
        }
    }
}
