//! Where to connect: the servers, and the database that a URL names.

use crate::config::{Config, invalid};
use crate::engine::credentials::Credentials;
use crate::engine::url::{MultiHostUrl, NodeAddress, format_address, percent_decode};
use crate::error::LockError;
use std::fmt;

/// Displays no user and no password.
pub(crate) struct Address {
    pub(crate) hosts: Vec<NodeAddress>,
    /// A Unix socket, instead of the hosts.
    pub(crate) socket: Option<String>,
    pub(crate) database: String,
    /// Passwords may be encrypted by a key that the server sends, whoever that is.
    pub(crate) trusts_key: bool,
    pub(crate) create_table: bool,
    pub(crate) credentials: Credentials,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<std::sync::Arc<rustls::ClientConfig>>,
}

const DEFAULT_PORT: u16 = 3306;

impl Address {
    pub(crate) fn parse(url: &str, config: &Config) -> Result<Address, LockError> {
        let wrong = |why: &str| {
            invalid(&format!(
                "the URL of MySQL can't be read: {why}; write it like \
                 `mysql://user:password@h1:3306,h2/database`, with special characters in the password \
                 percent-encoded"
            ))
        };
        let (_, rest) = url.split_once("://").unwrap_or(("", url));
        let (rest, parameters) = rest.split_once('?').unwrap_or((rest, ""));
        let parameters = Parameters::parse(parameters).map_err(wrong)?;
        let parsed = MultiHostUrl::parse(rest, DEFAULT_PORT).map_err(wrong)?;
        let Ok([database]) = <[String; 1]>::try_from(parsed.path) else {
            return Err(wrong(
                "it does not name the database that has the table of locks",
            ));
        };
        if parameters.socket.is_some() && !cfg!(unix) {
            return Err(wrong("this system has no Unix sockets"));
        }
        let encrypts = parameters.encrypts.unwrap_or(has_certificates(config));
        if encrypts && !cfg!(feature = "tls") {
            return Err(invalid(
                "`ssl-mode=required` needs TLS; enable the feature `tls` of `lock-runtime`",
            ));
        }
        Ok(Address {
            hosts: parsed.hosts,
            socket: parameters.socket,
            database,
            trusts_key: parameters.trusts_key,
            create_table: config.create_schema,
            credentials: Credentials::of(config, parsed.credentials),
            #[cfg(feature = "tls")]
            tls: match encrypts {
                true => Some(crate::engine::tls::client_config(config)?.into()),
                false => None,
            },
        })
    }
}

impl Address {
    /// Returns `true` if connections to hosts are encrypted; then certificates are always checked.
    pub(crate) fn encrypts(&self) -> bool {
        #[cfg(feature = "tls")]
        return self.tls.is_some();
        #[cfg(not(feature = "tls"))]
        false
    }
}

#[cfg(feature = "tls")]
use crate::engine::tls::has_certificates;

#[cfg(not(feature = "tls"))]
fn has_certificates(_: &Config) -> bool {
    false
}

#[derive(Default)]
struct Parameters {
    socket: Option<String>,
    encrypts: Option<bool>,
    trusts_key: bool,
}

impl Parameters {
    fn parse(text: &str) -> Result<Parameters, &'static str> {
        let mut parsed = Parameters::default();
        for parameter in text.split('&').filter(|it| !it.is_empty()) {
            match parameter.split_once('=') {
                Some(("socket", path)) => parsed.socket = Some(percent_decode(path)?),
                Some(("ssl-mode", "disabled")) => parsed.encrypts = Some(false),
                Some(("ssl-mode", "required" | "verify_ca" | "verify_identity")) => {
                    parsed.encrypts = Some(true);
                }
                Some(("ssl-mode", _)) => {
                    return Err(
                        "`ssl-mode` is not known: it is `required`, with which certificates are always checked, or \
                         `disabled`",
                    );
                }
                Some(("get-server-public-key", "true")) => parsed.trusts_key = true,
                Some(("get-server-public-key", "false")) => parsed.trusts_key = false,
                _ => {
                    return Err(
                        "it has a parameter that is not known; known are `ssl-mode`, `socket` and \
                         `get-server-public-key`",
                    );
                }
            }
        }
        Ok(parsed)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts: Vec<_> = match &self.socket {
            Some(path) => vec![path.replace('/', "%2F")],
            None => self.hosts.iter().map(format_address).collect(),
        };
        write!(f, "mysql://{}/{}", hosts.join(","), self.database)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<Address, LockError> {
        Address::parse(url, &Config::new(url))
    }

    #[test]
    fn address_has_no_password() {
        for (url, shown) in [
            ("mysql://u:secret@h/db", "mysql://h:3306/db"),
            (
                "mariadb://u:secret@h1:1,[::1]:2/db",
                "mysql://h1:1,[::1]:2/db",
            ),
            (
                "mysql://u:secret@localhost/db?socket=/run/m.sock&ssl-mode=disabled",
                "mysql://%2Frun%2Fm.sock/db",
            ),
        ] {
            assert_eq!(parse(url).unwrap().to_string(), shown);
        }
    }

    #[test]
    fn invalid_urls_are_errors_without_password() {
        for url in [
            "mysql://u:secret@h",
            "mysql://u:secret@h/",
            "mysql://u:secret@h/db/secret",
            "mysql://u:secret@h:port/db",
            "mysql://u:secret@/db",
            "mysql://u:secret@h,/db",
            "mysql://u:secret@h/db?ssl-mode=preferred",
            "mysql://u:secret@h/db?password=secret",
            "mysql://u:secret@h/db?secret",
            "mysql://u:se?secret@h/db",
            "mysql://u:secret%@h/db",
        ] {
            let Err(error) = parse(url) else {
                panic!("{url} was accepted");
            };
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }
}
