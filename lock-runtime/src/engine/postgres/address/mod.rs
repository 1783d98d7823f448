//! The servers, the database and the schema that a URL names.

pub(crate) mod servers;

use crate::config::invalid;
use crate::engine::postgres::address::servers::Servers;
use crate::engine::postgres::sql::schema::Schema;
use crate::error::LockError;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::Config;
use tokio_postgres::config::{SslMode, TargetSessionAttrs};

const HELP: &str = "write it like `postgres://user:password@host:5432/database`, with `%` codes for special characters";

pub(crate) struct Target {
    pub(crate) server: Arc<Servers>,
    /// The servers for `LISTEN`.
    pub(crate) listen: Arc<Servers>,
    database: Option<String>,
    pub(crate) schema: Schema,
    pub(crate) create_schema: bool,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<Arc<rustls::ClientConfig>>,
}

impl Target {
    pub(crate) fn parse(url: &str, config: &crate::config::Config) -> Result<Target, LockError> {
        check_separators(url)?;
        let (address, parameters) = url.split_once('?').unwrap_or((url, ""));
        let (mut schema, mut listen, mut sslmode) = (None, None, None);
        let mut others = Vec::new();
        for parameter in parameters.split('&').filter(|it| !it.is_empty()) {
            match parameter.split_once('=') {
                Some(("schema", name)) => schema = Some(name),
                Some(("listen", server)) => listen = Some(server),
                Some(("sslmode", mode)) => sslmode = Some(mode),
                Some(("target_session_attrs", "read-write")) => {}
                Some(("target_session_attrs", _)) => {
                    return Err(invalid(
                        "locks need a server that accepts writes; leave out `target_session_attrs`",
                    ));
                }
                _ => others.push(parameter),
            }
        }
        let others = others.join("&");
        let plain = [address, if others.is_empty() { "" } else { "?" }, &others].concat();
        let mut server = plain.parse::<Config>().map_err(|error| {
            // It names the option, and never its value.
            let cause = error.source().map(ToString::to_string).unwrap_or_default();
            invalid(&format!("the URL is not understood: {cause}; {HELP}"))
        })?;
        if let Some((user, password)) = &config.credentials {
            if !user.is_empty() {
                server.user(user);
            }
            server.password(password);
        }
        let encrypts = encrypts(sslmode, config)?;
        server
            .ssl_mode(if encrypts {
                SslMode::Require
            } else {
                SslMode::Disable
            })
            .target_session_attrs(TargetSessionAttrs::ReadWrite)
            .keepalives_idle(Duration::from_secs(10))
            .keepalives_interval(Duration::from_secs(5))
            .tcp_user_timeout(Duration::from_secs(10));
        if server.get_application_name().is_none() {
            server.application_name("lock-runtime");
        }
        let servers = Servers::new(&server, &server)
            .map_err(|why| invalid(&format!("the URL is not understood: {why}; {HELP}")))?;
        let servers = Arc::new(servers);
        let listen = match listen {
            Some(addresses) => Arc::new(listening_at(addresses, &server).map_err(|why| {
                invalid(&format!(
                    "`listen` in the URL is not understood: {why}; write it like `listen=host:5432` or \
                     `listen=[::1]:5432`"
                ))
            })?),
            None => servers.clone(),
        };
        let schema = match schema {
            Some(name) => Schema::new(name).ok_or_else(|| {
                invalid(
                    "`schema` in the URL is not a name of lowercase letters, digits and underscores",
                )
            })?,
            None => Schema::default(),
        };
        Ok(Target {
            server: servers,
            listen,
            database: server.get_dbname().map(str::to_owned),
            schema,
            create_schema: config.create_schema,
            #[cfg(feature = "tls")]
            tls: match encrypts {
                true => Some(Arc::new(tls(config)?)),
                false => None,
            },
        })
    }
}

#[cfg(feature = "tls")]
fn tls(config: &crate::config::Config) -> Result<rustls::ClientConfig, LockError> {
    let mut tls = crate::engine::tls::client_config(config.root_certificate.as_deref())?;
    // With `sslnegotiation=direct`, a server expects it.
    tls.alpn_protocols = vec![b"postgresql".to_vec()];
    Ok(tls)
}

/// Returns `true` if connections are to be encrypted; then certificates are always checked.
fn encrypts(sslmode: Option<&str>, config: &crate::config::Config) -> Result<bool, LockError> {
    #[cfg(feature = "tls")]
    let trusts_own = config.root_certificate.is_some();
    #[cfg(not(feature = "tls"))]
    let (trusts_own, _) = (false, config);
    let encrypts = match sslmode {
        Some("disable") => false,
        None => trusts_own,
        Some("require" | "verify-ca" | "verify-full") => true,
        Some(_) => {
            return Err(invalid(
                "`sslmode` in the URL is not known; use `require`, with which certificates are always \
                 checked, or `disable`",
            ));
        }
    };
    if encrypts && !cfg!(feature = "tls") {
        return Err(invalid(
            "`sslmode=require` needs TLS; enable the feature `tls` of `lock-runtime`",
        ));
    }
    Ok(encrypts)
}

/// Fails if an `@` may belong to the user, the password or a parameter: the driver takes the first one for their end,
/// and what follows for a host, which errors name.
fn check_separators(url: &str) -> Result<(), LockError> {
    let (_, rest) = url.split_once("://").unwrap_or(("", url));
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    if authority.matches('@').count() > 1 || path.contains('@') {
        return Err(invalid(
            "the URL has an `@` that does not end user and password; write `@` as `%40`, and `/` and `?` in them as \
             `%2F` and `%3F`",
        ));
    }
    Ok(())
}

/// Returns the servers at other addresses.
fn listening_at(addresses: &str, like: &Config) -> Result<Servers, &'static str> {
    let unknown = "it is no list of hosts and ports";
    let mut hosts = addresses.to_owned();
    // The codes that a parameter may have; a `/` begins a path, and remains a code.
    for (code, character) in [("%5B", "["), ("%5D", "]"), ("%3A", ":"), ("%2C", ",")] {
        hosts = hosts.replace(code, character);
        hosts = hosts.replace(&code.to_lowercase(), character);
    }
    if hosts.contains(['@', '/', '?']) {
        return Err(unknown);
    }
    let hosts = format!("postgres://{hosts}").parse::<Config>();
    Servers::new(&hosts.map_err(|_| unknown)?, like)
}

/// Without user and password.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "postgres://{}", self.server)?;
        match &self.database {
            Some(name) => write!(f, "/{name}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<Target, LockError> {
        Target::parse(url, &crate::config::Config::new(url))
    }

    #[test]
    fn address_has_no_password() {
        for (url, shown) in [
            ("postgres://u:secret@h/db", "postgres://h:5432/db"),
            (
                "postgresql://u:secret@h1:1,h2:2/db?schema=shop",
                "postgres://h1:1,h2:2/db",
            ),
        ] {
            let target = parse(url).unwrap();
            assert_eq!(target.to_string(), shown);
        }
        assert_eq!(
            parse("postgres://h/?schema=shop").unwrap().schema.name(),
            "shop"
        );
    }

    #[test]
    fn listen_names_another_server() {
        let url = |address: &str, more: &str| {
            format!("postgres://u:p@{address}/db?options=-c%20geqo%3Doff{more}")
        };
        for (listen, address) in [
            ("server", "server:5432"),
            ("server:5433", "server:5433"),
            ("one:1,two", "one:1,two:5432"),
            ("[::1]:5433", "[::1]:5433"),
            ("%5b::1%5D%3A5433", "[::1]:5433"),
            ("%2Frun%2Fpostgresql:5433", "%2Frun%2Fpostgresql:5433"),
        ] {
            let target = parse(&url("pooler:6432", &format!("&listen={listen}"))).unwrap();
            assert_eq!(target.server.to_string(), "pooler:6432");
            // All but the address is that of the first.
            let expected = parse(&url(address, "")).unwrap().server;
            let each = |servers: &Servers| {
                let each = servers.in_order();
                each.map(|(_, config)| config.clone()).collect::<Vec<_>>()
            };
            assert_eq!(each(&target.listen), each(&expected), "{listen}");
        }
    }

    #[test]
    fn invalid_urls_are_errors_without_password() {
        for url in [
            "postgres://u:secret@h:port/db",
            "postgres://",
            "postgres://u:secret@h/db?shema=x",
            "postgres://u:secret@h/db?schema=x-y",
            "postgres://u:secret@h/db?sslmode=prefer",
            "postgres://u:secret@h/db?listen=h:x",
            "postgres://u:secret@h/db?listen=",
            "postgres://u:secret@h/db?listen=[::1",
            "postgres://u:secret@h/db?listen=u:secret@h",
            "postgres://u:secret@h/db?listen=postgres://u:secret@h",
            "postgres://u:secret",
            "postgres://u:secret@",
            "postgres://u:secret@/db",
            "postgres://u:secret@h,/db",
            "postgres://u:secret@h:0/db",
            "postgres://u:secret@h:99999/db",
            "postgres://u:secret@[::1/db",
            "postgres://u:se@secret@h/db",
            "postgres://u:se/secret@h/db",
            "postgres://u:se?secret@h/db",
            "postgres://u:secret@h/db@x",
            "postgres://u:secret@h/db?application_name=a@b",
            "postgres://u:secret@h/db?password=secret&hosts=x",
            "postgres://u:secret@h/db?secret",
            "postgres://%ff:secret@h/db",
            "postgres://u:secret@h/db?target_session_attrs=any",
        ] {
            let Err(error) = parse(url) else {
                panic!("{url}");
            };
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }
}
