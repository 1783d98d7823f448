//! The members of an etcd cluster as a URL names them, and how to reach them.

use crate::config::{Config, invalid};
use crate::engine::credentials::Credentials;
use crate::engine::url::{MultiHostUrl, NodeAddress, format_address};
use crate::error::LockError;
use std::fmt;

/// The members, and the user as which to log in. Displays the addresses only.
pub(crate) struct Address {
    pub(crate) hosts: Vec<NodeAddress>,
    pub(crate) credentials: Credentials,
    pub(crate) is_tls: bool,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<std::sync::Arc<rustls::ClientConfig>>,
}

const DEFAULT_PORT: u16 = 2379;

impl Address {
    pub(crate) fn parse(url: &str, config: &Config) -> Result<Address, LockError> {
        let wrong = |why: &str| {
            invalid(&format!(
                "the URL of etcd can't be read: {why}; write it like \
                 `etcd://user:password@h1:2379,h2,h3`, with special characters in the password \
                 percent-encoded"
            ))
        };
        let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
        let parsed = MultiHostUrl::parse(rest, DEFAULT_PORT).map_err(wrong)?;
        if !parsed.path.is_empty() {
            return Err(wrong("only hosts and ports can follow the user"));
        }
        let is_tls = scheme == "etcds";
        if is_tls && !cfg!(feature = "tls") {
            return Err(invalid(
                "a URL that begins with `etcds` needs TLS; enable the feature `tls` of `lock-runtime`",
            ));
        }
        Ok(Address {
            hosts: parsed.hosts,
            credentials: Credentials::of(config, parsed.credentials),
            is_tls,
            #[cfg(feature = "tls")]
            tls: match is_tls {
                true => Some(http2(config)?),
                false => None,
            },
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "etcds" } else { "etcd" };
        let hosts: Vec<_> = self.hosts.iter().map(format_address).collect();
        write!(f, "{scheme}://{}", hosts.join(","))
    }
}

/// Returns how HTTP/2 is encrypted.
#[cfg(feature = "tls")]
fn http2(config: &Config) -> Result<std::sync::Arc<rustls::ClientConfig>, LockError> {
    let mut tls = crate::engine::tls::client_config(config)?;
    tls.alpn_protocols = vec![b"h2".to_vec()];
    Ok(std::sync::Arc::new(tls))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<Address, LockError> {
        Address::parse(url, &Config::new(url))
    }

    #[test]
    fn hosts_are_read() {
        let parsed = parse("etcds://us%40er:p%2Fa@one,two:1,[::1]:3/").unwrap();
        assert_eq!(parsed.to_string(), "etcds://one:2379,two:1,[::1]:3");
        assert!(parsed.is_tls && !parse("etcd://one").unwrap().is_tls);
    }

    #[test]
    fn errors_reveal_no_secret() {
        for url in [
            "etcd://",
            "etcd://one,",
            "etcd://u:secret@",
            "etcd://u:secret@one:0",
            "etcd://u:secret@one/secret",
            "etcd://u:secret%@one",
            "etcd://[::1",
            "etcd://one:secret",
        ] {
            let Err(error) = parse(url) else {
                panic!("{url} was accepted");
            };
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }
}
