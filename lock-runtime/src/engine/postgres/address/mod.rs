//! Where to connect: the servers, the database and the schema that a URL names.

mod parameters;
pub(crate) mod servers;

use crate::config::{Config, invalid};
use crate::engine::credentials::Credentials;
use crate::engine::postgres::address::parameters::Parameters;
use crate::engine::postgres::address::servers::Servers;
use crate::engine::postgres::sql::schema::Schema;
use crate::error::LockError;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::config::{SslMode, TargetSessionAttrs};

const HELP: &str = "write it like `postgres://user:password@host:5432/database`, with `%` codes for special characters";

pub(crate) struct Address {
    pub(crate) servers: Arc<Servers>,
    /// The servers for `LISTEN`.
    pub(crate) listen: Arc<Servers>,
    database: Option<String>,
    pub(crate) schema: Schema,
    pub(crate) create_schema: bool,
    pub(crate) check_permissions: bool,
    /// Instead of those that the servers have from the URL.
    pub(crate) credentials: Credentials,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<Arc<rustls::ClientConfig>>,
}

impl Address {
    pub(crate) fn parse(url: &str, config: &Config) -> Result<Address, LockError> {
        check_separators(url)?;
        let (parameters, url) = Parameters::take_from(url)?;
        let encrypts = parameters.encrypts(config)?;
        let driver = driver_config(&url, encrypts)?;
        let servers = Servers::new(&driver, &driver).map_err(not_understood)?;
        let servers = Arc::new(servers);
        let listen = match parameters.listen {
            Some(addresses) => Arc::new(listening_at(addresses, &driver)?),
            None => servers.clone(),
        };
        Ok(Address {
            servers,
            listen,
            database: driver.get_dbname().map(str::to_owned),
            schema: parameters.schema()?,
            create_schema: config.create_schema,
            check_permissions: config.check_permissions,
            credentials: Credentials::of(config, None),
            #[cfg(feature = "tls")]
            tls: match encrypts {
                true => Some(Arc::new(tls(config)?)),
                false => None,
            },
        })
    }
}

/// Returns the configuration of the driver for the URL, with the settings that locks need.
fn driver_config(url: &str, encrypts: bool) -> Result<tokio_postgres::Config, LockError> {
    let mut driver = url.parse::<tokio_postgres::Config>().map_err(|error| {
        // It names the option, and never its value.
        let cause = error.source().map(ToString::to_string);
        not_understood(&cause.unwrap_or_default())
    })?;
    driver
        .ssl_mode(match encrypts {
            true => SslMode::Require,
            false => SslMode::Disable,
        })
        .target_session_attrs(TargetSessionAttrs::ReadWrite)
        .keepalives_idle(Duration::from_secs(10))
        .keepalives_interval(Duration::from_secs(5))
        .tcp_user_timeout(Duration::from_secs(10));
    if driver.get_application_name().is_none() {
        driver.application_name("lock-runtime");
    }
    Ok(driver)
}

fn not_understood(cause: &str) -> LockError {
    invalid(&format!("the URL is not understood: {cause}; {HELP}"))
}

#[cfg(feature = "tls")]
fn tls(config: &Config) -> Result<rustls::ClientConfig, LockError> {
    let mut tls = crate::engine::tls::client_config(config)?;
    // With `sslnegotiation=direct`, a server expects it.
    tls.alpn_protocols = vec![b"postgresql".to_vec()];
    Ok(tls)
}

/// Fails if an `@` may belong to the user, the password or a parameter: the driver takes the first one for
/// their end, and the rest for a host, which errors name.
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

/// Returns the servers at the addresses of the parameter `listen`.
fn listening_at(addresses: &str, like: &tokio_postgres::Config) -> Result<Servers, LockError> {
    let invalid = |why: &str| {
        invalid(&format!(
            "`listen` in the URL is not understood: {why}; write it like `listen=host:5432` or \
             `listen=[::1]:5432`"
        ))
    };
    let unknown = || invalid("it is no list of hosts and ports");
    let mut hosts = addresses.to_owned();
    // The codes that a parameter may have; a `/` begins a path, and remains a code.
    for (code, character) in [("%5B", "["), ("%5D", "]"), ("%3A", ":"), ("%2C", ",")] {
        hosts = hosts.replace(code, character);
        hosts = hosts.replace(&code.to_lowercase(), character);
    }
    if hosts.contains(['@', '/', '?']) {
        return Err(unknown());
    }
    let hosts = format!("postgres://{hosts}").parse();
    Servers::new(&hosts.map_err(|_| unknown())?, like).map_err(invalid)
}

/// Without user and password.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "postgres://{}", self.servers)?;
        match &self.database {
            Some(name) => write!(f, "/{name}"),
            None => Ok(()),
        }
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
            ("postgres://u:secret@h/db", "postgres://h:5432/db"),
            (
                "postgresql://u:secret@h1:1,h2:2/db?schema=shop",
                "postgres://h1:1,h2:2/db",
            ),
        ] {
            let parsed = parse(url).unwrap();
            assert_eq!(parsed.to_string(), shown);
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
            let parsed = parse(&url("pooler:6432", &format!("&listen={listen}"))).unwrap();
            assert_eq!(parsed.servers.to_string(), "pooler:6432");
            // All but the address is that of the first.
            let expected = parse(&url(address, "")).unwrap().servers;
            let each = |servers: &Servers| {
                let each = servers.in_order();
                each.map(|(_, config)| config.clone()).collect::<Vec<_>>()
            };
            assert_eq!(each(&parsed.listen), each(&expected), "{listen}");
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
