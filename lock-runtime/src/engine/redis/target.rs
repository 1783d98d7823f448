//! Where a server is, and how it wants to be spoken to.

use crate::LockError;
use redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
use redis::{Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A server's address with everything needed to be let in. Shows the address only.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) client: Client,
}

impl Target {
    /// Reads a URL; `credentials` win over those in it.
    pub(crate) fn parse(
        url: &str,
        credentials: Option<&(String, String)>,
        #[cfg(feature = "tls")] root_certificate: Option<&[u8]>,
    ) -> Result<Target, LockError> {
        if url.starts_with("rediss:") && !cfg!(feature = "tls") {
            return Err(invalid(
                "`rediss://` needs TLS; enable the feature `tls` of `lock-runtime`",
                None,
            ));
        }
        let info = url.into_connection_info().map_err(|error| {
            invalid(
                "the URL can't be read; write `redis://user:password@host:port/db`, with what is \
                 special in the password percent-encoded",
                Some(error),
            )
        })?;
        let info = with_settings(info, credentials);
        #[cfg(feature = "tls")]
        provide_cryptography();
        #[cfg(feature = "tls")]
        let client = match (info.addr(), root_certificate) {
            (ConnectionAddr::TcpTls { .. }, Some(pem)) => Client::build_with_tls(
                info,
                redis::TlsCertificates {
                    client_tls: None,
                    root_cert: Some(pem.to_vec()),
                },
            ),
            _ => Client::open(info),
        };
        #[cfg(not(feature = "tls"))]
        let client = Client::open(info);
        match client {
            Ok(client) => Ok(Target { client }),
            Err(error) => Err(invalid("the server can't be used as given", Some(error))),
        }
    }

    /// The same server, spoken to in another version of its protocol.
    pub(crate) fn speaking(&self, protocol: ProtocolVersion) -> Target {
        let info = self.client.get_connection_info();
        let redis = info.redis_settings().clone().set_protocol(protocol);
        let client = Client::open(info.clone().set_redis_settings(redis));
        client.map_or_else(|_| self.clone(), |client| Target { client })
    }

    fn addr(&self) -> &ConnectionAddr {
        self.client.get_connection_info().addr()
    }
}

fn with_settings(info: ConnectionInfo, credentials: Option<&(String, String)>) -> ConnectionInfo {
    let mut redis = info
        .redis_settings()
        .clone()
        .set_lib_name("lock-runtime", env!("CARGO_PKG_VERSION"));
    if let Some((user, password)) = credentials {
        redis = redis.set_password(password);
        if !user.is_empty() {
            redis = redis.set_username(user);
        }
    }
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

/// The driver panics when a process has no cryptography provider installed, or can't tell which.
#[cfg(feature = "tls")]
fn provide_cryptography() {
    use rustls::crypto::{CryptoProvider, ring};

    if CryptoProvider::get_default().is_none() {
        // An error says that another thread was first.
        let _ = ring::default_provider().install_default();
    }
}

fn invalid(reason: &str, source: Option<redis::RedisError>) -> LockError {
    LockError::InvalidConfig {
        reason: reason.to_owned(),
        source: source.map(|error| Arc::new(error) as _),
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.addr() {
            ConnectionAddr::TcpTls { .. } => "rediss",
            ConnectionAddr::Unix(_) => "redis+unix",
            _ => "redis",
        };
        write!(f, "{scheme}://{}", self.addr())
    }
}
