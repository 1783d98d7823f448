//! The servers of an ensemble as a URL names them, and how to reach them.

use crate::config::{Config, invalid};
use crate::engine::credentials::Credentials;
use crate::engine::url::{MultiHostUrl, NodeAddress, format_address};
use crate::engine::zookeeper::keys::is_allowed;
use crate::error::LockError;
use std::fmt;

/// The servers, and the user as which to log in. Displays the servers only.
pub(crate) struct Address {
    pub(crate) hosts: Vec<NodeAddress>,
    /// The path under which all nodes are, without a slash at its end.
    pub(crate) root: String,
    pub(crate) credentials: Credentials,
    is_tls: bool,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<std::sync::Arc<rustls::ClientConfig>>,
}

const DEFAULT_PORT: u16 = 2181;

impl Address {
    pub(crate) fn parse(url: &str, config: &Config) -> Result<Address, LockError> {
        let wrong = |why: &str| {
            invalid(&format!(
                "the URL of ZooKeeper can't be read: {why}; write it like \
                 `zookeeper://user:password@h1:2181,h2,h3/root`, with special characters in the \
                 password percent-encoded"
            ))
        };
        let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
        let parsed = MultiHostUrl::parse(rest, DEFAULT_PORT).map_err(wrong)?;
        let parts = parsed.path.iter().filter(|part| !part.is_empty());
        if !parts.clone().all(|part| is_allowed(part)) {
            return Err(wrong(
                "the path has `.`, `..` or a character that ZooKeeper does not allow in paths",
            ));
        }
        let root = parts.map(|part| format!("/{part}")).collect();
        let is_tls = scheme == "zookeepers";
        if is_tls && !cfg!(feature = "tls") {
            return Err(invalid(
                "a URL that begins with `zookeepers` needs TLS; enable the feature `tls` of `lock-runtime`",
            ));
        }
        Ok(Address {
            hosts: parsed.hosts,
            root,
            credentials: Credentials::of(config, parsed.credentials),
            is_tls,
            #[cfg(feature = "tls")]
            tls: match is_tls {
                true => Some(std::sync::Arc::new(crate::engine::tls::client_config(
                    config,
                )?)),
                false => None,
            },
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls {
            "zookeepers"
        } else {
            "zookeeper"
        };
        let hosts: Vec<_> = self.hosts.iter().map(format_address).collect();
        write!(f, "{scheme}://{}{}", hosts.join(","), self.root)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<Address, LockError> {
        Address::parse(url, &Config::new(url))
    }

    #[test]
    fn hosts_and_root_are_read() {
        let address = parse("zookeeper://me:p%40ss%2F@a,b:2182,[::1]:9/apps//locks/").unwrap();
        let shown = "zookeeper://a:2181,b:2182,[::1]:9/apps/locks";
        assert_eq!(address.to_string(), shown);
        assert_eq!(parse("zookeeper://a").unwrap().root, "");
    }

    #[test]
    fn a_malformed_url_is_refused_without_its_password() {
        for rest in [
            "",
            "a:x",
            "a:0",
            "a,,b",
            "a b",
            "[::1",
            "[x]:1",
            "a?x=1",
            "a/b#c",
            "a/%zz",
            "a/b/../c",
            "a/.",
            "a/%00",
            "a/%F0%9F%94%92",
        ] {
            let refused = parse(&format!("zookeeper://me:secret@{rest}")).err();
            let refused = refused.expect(rest).to_string();
            assert!(
                refused.contains("h1:2181") && !refused.contains("secret"),
                "{refused}"
            );
        }
    }
}
