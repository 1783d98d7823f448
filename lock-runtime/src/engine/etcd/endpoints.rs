//! The members of an etcd cluster as a URL names them, and how to reach them.

use crate::config::{Config, invalid};
use crate::error::LockError;
use std::fmt;
use std::net::Ipv6Addr;

/// The members, and the user as which to log in. Displays the addresses only.
pub(super) struct Endpoints {
    pub(super) hosts: Vec<Host>,
    pub(super) tls: bool,
    pub(super) credentials: Option<(String, String)>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Host {
    pub(super) name: String,
    pub(super) port: u16,
}

const HELP: &str = "write it like `etcd://user:password@h1:2379,h2,h3`, with special characters in the \
                    password percent-encoded";

impl Endpoints {
    pub(super) fn parse(url: &str, config: &Config) -> Result<Endpoints, LockError> {
        let wrong = |why: &str| invalid(&format!("the URL of etcd can't be read: {why}; {HELP}"));
        let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (credentials, hosts) = match rest.rsplit_once('@') {
            Some((credentials, hosts)) => {
                let (user, password) = credentials.split_once(':').unwrap_or((credentials, ""));
                let decoded = decode(user).zip(decode(password));
                let decoded = decoded.ok_or_else(|| wrong("the user is not percent-encoded"))?;
                (Some(decoded), hosts)
            }
            None => (None, rest),
        };
        if hosts.contains(['/', '?', '#']) {
            return Err(wrong("only hosts and ports can follow the user"));
        }
        let hosts: Result<Vec<Host>, LockError> = hosts
            .split(',')
            .map(|host| parse_host(host).map_err(wrong))
            .collect();
        Ok(Endpoints {
            hosts: hosts?,
            tls: scheme == "etcds",
            credentials: config.credentials.clone().or(credentials),
        })
    }

    pub(super) fn scheme(&self) -> &'static str {
        if self.tls { "etcds" } else { "etcd" }
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
        "" => 2379,
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
        let mut digit = || char::from(rest.next()?).to_digit(16);
        bytes.push(match byte {
            b'%' => (16 * digit()? + digit()?) as u8,
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

impl fmt::Display for Endpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts: Vec<_> = self.hosts.iter().map(Host::to_string).collect();
        write!(f, "{}://{}", self.scheme(), hosts.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<Endpoints, LockError> {
        Endpoints::parse(url, &Config::new(url))
    }

    #[test]
    fn hosts_and_credentials_are_read() {
        let parsed = parse("etcds://us%40er:p%2Fa@one,two:1,[::1]:3/").unwrap();
        assert_eq!(parsed.to_string(), "etcds://one:2379,two:1,[::1]:3");
        assert_eq!(parsed.credentials, Some(("us@er".into(), "p/a".into())));
        assert!(parsed.tls && !parse("etcd://one").unwrap().tls);
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
