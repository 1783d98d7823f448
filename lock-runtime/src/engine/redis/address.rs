//! A server's address, and how to connect to it.

#[cfg(feature = "tls")]
use crate::engine::tls::{client_config, encrypt, install_crypto_provider};
use crate::engine::url::NodeAddress;
use crate::error::LockError;
use redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
use redis::{Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A server's address with everything needed to authenticate. Displays the address only.
#[derive(Clone)]
pub(crate) struct Address {
    pub(crate) client: Client,
    #[cfg(feature = "tls")]
    tls: Option<Arc<rustls::ClientConfig>>,
}

/// The credentials and certificates of a client, besides the URL.
#[derive(Clone, Copy, Default)]
pub(crate) struct AuthOptions<'a> {
    pub(crate) credentials: Option<&'a (String, String)>,
    #[cfg(feature = "tls")]
    pub(crate) root_certificate: Option<&'a [u8]>,
}

impl<'a> AuthOptions<'a> {
    /// Returns the same options with other credentials.
    pub(crate) fn with(mut self, credentials: Option<&'a (String, String)>) -> AuthOptions<'a> {
        self.credentials = credentials;
        self
    }
}

impl Address {
    /// Parses a URL; the credentials of `access` override those in it.
    pub(crate) fn parse(url: &str, access: &AuthOptions<'_>) -> Result<Address, LockError> {
        check_tls(url.starts_with("rediss:"))?;
        check_parameters(url)?;
        let info = url.into_connection_info().map_err(|error| {
            invalid(
                "the URL can't be read; write `redis://user:password@host:port/db`, with special \
                 characters in the password percent-encoded",
                Some(error),
            )
        })?;
        Address::new(info, access)
    }

    /// Returns the address at that host and port.
    pub(crate) fn at(
        host: &str,
        port: u16,
        tls: bool,
        database: i64,
        access: &AuthOptions<'_>,
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
        Address::new(info.set_redis_settings(redis), access)
    }

    fn new(info: ConnectionInfo, access: &AuthOptions<'_>) -> Result<Address, LockError> {
        let info = with_settings(info, access.credentials);
        #[cfg(feature = "tls")]
        install_crypto_provider();
        #[cfg(feature = "tls")]
        let tls = match (info.addr(), access.root_certificate) {
            (ConnectionAddr::TcpTls { .. }, _) | (_, Some(_)) => {
                Some(Arc::new(client_config(access.root_certificate)?))
            }
            _ => None,
        };
        #[cfg(feature = "tls")]
        let client = match (info.addr(), access.root_certificate) {
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
        let client = client.map_err(invalid_address)?;
        Ok(Address {
            #[cfg(feature = "tls")]
            tls,
            client,
        })
    }

    /// Returns the same address with another client.
    fn by(&self, client: Client) -> Address {
        Address {
            client,
            #[cfg(feature = "tls")]
            tls: self.tls.clone(),
        }
    }

    /// Encrypts a stream with TLS.
    #[cfg(feature = "tls")]
    pub(crate) async fn encrypt<S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin>(
        &self,
        host: &str,
        stream: S,
    ) -> std::io::Result<tokio_rustls::client::TlsStream<S>> {
        let missing = || std::io::Error::other("the certificates can't be used");
        let tls = self.tls.as_ref().ok_or_else(missing)?;
        encrypt(tls, host, stream).await
    }

    /// Returns the address of another server, which is connected to in the same way.
    pub(crate) fn with_host(&self, (host, port): &NodeAddress) -> redis::RedisResult<Address> {
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
        let info = self.client.get_connection_info().clone();
        let client = Client::open(info.set_addr(addr))?;
        Ok(self.by(client))
    }

    pub(crate) fn has_tls(&self) -> bool {
        matches!(self.addr(), ConnectionAddr::TcpTls { .. })
    }

    /// Returns the same address with another version of the protocol.
    pub(crate) fn with_protocol(&self, protocol: ProtocolVersion) -> Address {
        let info = self.client.get_connection_info();
        let redis = info.redis_settings().clone().set_protocol(protocol);
        let client = Client::open(info.clone().set_redis_settings(redis));
        client.map_or_else(|_| self.clone(), |client| self.by(client))
    }

    pub(crate) fn addr(&self) -> &ConnectionAddr {
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
        write!(f, "{scheme}://{}", self.addr())
    }
}
