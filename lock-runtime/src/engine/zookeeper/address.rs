//! The servers of an ensemble as a URL names them, and how to reach them.

use crate::config::{Config, invalid};
use crate::engine::zookeeper::paths::is_allowed;
use crate::error::LockError;
use std::fmt;
use std::net::Ipv6Addr;

/// The servers, and the user as which to log in. Displays the servers only.
pub(crate) struct Address {
    pub(crate) hosts: Vec<Host>,
    /// The path under which all nodes are, without a slash at its end.
    pub(crate) root: String,
    pub(crate) credentials: Option<(String, String)>,
    is_tls: bool,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<std::sync::Arc<rustls::ClientConfig>>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) port: u16,
}

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
        let (credentials, rest) = match rest.rsplit_once('@') {
            Some((credentials, rest)) => {
                let (user, password) = credentials.split_once(':').unwrap_or((credentials, ""));
                let decoded = decode(user).zip(decode(password));
                let decoded = decoded.ok_or_else(|| wrong("the user is not percent-encoded"))?;
                (Some(decoded), rest)
            }
            None => (None, rest),
        };
        let (hosts, root) = rest.split_once('/').unwrap_or((rest, ""));
        if rest.contains(['?', '#']) {
            return Err(wrong("it has no parameters"));
        }
        let hosts = hosts
            .split(',')
            .map(|host| parse_host(host).map_err(wrong))
            .collect::<Result<Vec<Host>, LockError>>()?;
        let root = decode(root).ok_or_else(|| wrong("the path is not percent-encoded"))?;
        let parts = root.split('/').filter(|part| !part.is_empty());
        if !parts.clone().all(is_allowed) {
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
            hosts,
            root,
            credentials: config.credentials.clone().or(credentials),
            is_tls,
            #[cfg(feature = "tls")]
            tls: match is_tls {
                true => Some(std::sync::Arc::new(crate::engine::tls::client_config(
                    config.root_certificate.as_deref(),
                )?)),
                false => None,
            },
        })
    }
}

fn parse_host(text: &str) -> Result<Host, &'static str> {
    let (name, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (address, port) = rest.split_once(']').ok_or("a `[` is not closed")?;
            let address: Ipv6Addr = address
                .parse()
                .map_err(|_| "the text in brackets is no IPv6 address")?;
            (address.to_string(), port)
        }
        None => {
            let end = text.find(':').unwrap_or(text.len());
            (text[..end].to_owned(), &text[end..])
        }
    };
    let valid = |c: char| c.is_ascii_alphanumeric() || "-._:".contains(c);
    if name.is_empty() || !name.chars().all(valid) {
        return Err("a host is missing, or has invalid characters");
    }
    let port = match port {
        "" => 2181,
        port => {
            let number = port.strip_prefix(':').unwrap_or_default();
            let port = number.parse().ok().filter(|port| *port > 0);
            port.ok_or("a port is not a number from 1 to 65535")?
        }
    };
    Ok(Host { name, port })
}

fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                let (high, low) = (digit(rest.next())?, digit(rest.next())?);
                u8::try_from(high * 16 + low).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name.contains(':') {
            true => write!(f, "[{}]:{}", self.name, self.port),
            false => write!(f, "{}:{}", self.name, self.port),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls {
            "zookeepers"
        } else {
            "zookeeper"
        };
        let hosts: Vec<_> = self.hosts.iter().map(Host::to_string).collect();
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
    fn hosts_root_and_credentials_are_read() {
        let address = parse("zookeeper://me:p%40ss%2F@a,b:2182,[::1]:9/apps//locks/").unwrap();
        let shown = "zookeeper://a:2181,b:2182,[::1]:9/apps/locks";
        assert_eq!(address.to_string(), shown);
        let credentials = Some(("me".to_owned(), "p@ss/".to_owned()));
        assert_eq!(address.credentials, credentials);
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
