//! What each topology is given that it must reject, and with which words.

use std::time::Duration;

use lock_runtime::Config;

use crate::etcd::access::with_users;
use lock_test_support::certificates::Certificates;
use lock_test_support::etcd::Etcd;
use lock_test_support::mariadb::MariaDb;
use lock_test_support::postgres::Postgres;
use lock_test_support::server::{Server, tls_options};
use lock_test_support::servers::{Pooled, Servers};
use lock_test_support::zookeeper::ZooKeeper;

/// In every URL and configuration, and in no error.
pub const SECRET: &str = "correct-horse";
const WRONG: &str = "wrong-correct-horse";

/// A configuration, and words of which the error contains one.
pub type Row = (Config, &'static [&'static str]);

/// Without bad input, if other suites test it.
#[derive(Default)]
pub struct Inputs {
    /// URLs that are wrong whatever server they mean, and words of which the error contains one.
    pub urls: &'static [(&'static str, &'static [&'static str])],
    /// Returns the URL of a user at an address.
    pub at: Option<fn(&str) -> String>,
    /// Returns the URL with TLS.
    pub secure: Option<fn(&str) -> String>,
    /// Returns what does not fit the topology's servers.
    pub unfit: Option<fn(&dyn Servers) -> Vec<Row>>,
    pub accounts: Option<fn() -> Accounts>,
    pub tls: Option<fn(Certificates) -> Secure>,
    pub lacks_replicas: bool,
    /// A length that no key may have.
    pub too_long: Option<usize>,
}

/// Servers that ask for credentials.
pub struct Accounts {
    pub servers: Box<dyn Servers>,
    pub right: Vec<Config>,
    /// Once the right ones have been used.
    pub wrong: Vec<Row>,
}

/// Servers with TLS.
pub struct Secure {
    pub servers: Box<dyn Servers>,
    pub url: String,
    /// The same port without TLS, if it then serves no client.
    pub plain: Option<String>,
}

pub fn memory() -> Inputs {
    Inputs::default()
}

pub fn mariadb() -> Inputs {
    Inputs {
        urls: &[
            ("mysql://", &["host"]),
            ("mysql://127.0.0.1", &["database"]),
            ("mysql://127.0.0.1:notaport/shop", &["port"]),
            ("mysql://127.0.0.1:0/shop", &["port"]),
            ("mysql://u:correct-horse@127.0.0.1/shop/x", &["database"]),
            ("mysql://u@127.0.0.1/shop?correct-horse", &["parameter"]),
            ("mysql://u@127.0.0.1/shop?ssl-mode=preferred", &["ssl-mode"]),
        ],
        at: Some(|address| format!("mariadb://clerk:{SECRET}@{address}/shop")),
        secure: Some(|url| format!("{url}?ssl-mode=required")),
        unfit: Some(|servers| {
            let nowhere = servers.urls()[0].replace("/shop", "/nowhere");
            vec![(Config::new(nowhere), &["nowhere"])]
        }),
        accounts: Some(|| {
            let server = MariaDb::start();
            server.query(&format!(
                "CREATE USER clerk IDENTIFIED BY '{SECRET}'; GRANT ALL ON shop.* TO clerk"
            ));
            let at = |user: &str| Config::new(server.url_for(user));
            let clerk = |password| Config::new(server.url()).credentials("clerk", password);
            Accounts {
                right: vec![at(&format!("clerk:{SECRET}")), clerk(SECRET)],
                wrong: vec![
                    (at(&format!("clerk:{WRONG}")), &["password"]),
                    (at(&format!("stranger:{SECRET}")), &["password"]),
                    (at("clerk"), &["password"]),
                    (clerk(WRONG), &["password"]),
                ],
                servers: Box::new(server),
            }
        }),
        tls: Some(|certificates| {
            let server = MariaDb::with_tls(&certificates);
            Secure {
                url: format!("{}?ssl-mode=required", server.url()),
                plain: None,
                servers: Box::new(server),
            }
        }),
        lacks_replicas: true,
        too_long: Some(996),
    }
}

/// `sqlite::bad_files` tests what may be at a path.
pub fn sqlite() -> Inputs {
    Inputs {
        urls: &[
            ("sqlite://", &["no file"]),
            ("sqlite://:memory:", &["memory://"]),
            ("sqlite:///tmp/x.db?mode=ro", &["no parameters"]),
            ("sqlite:///tmp/", &["a directory"]),
            ("sqlite:///tmp/%zz", &["hexadecimal"]),
        ],
        lacks_replicas: true,
        too_long: Some(996),
        ..Inputs::default()
    }
}

pub fn standalone() -> Inputs {
    Inputs {
        urls: &[
            ("", &["url", "empty"]),
            ("localhost", &["url", "redis://"]),
            ("redis://", &["url", "host"]),
            ("http://127.0.0.1", &["http", "scheme"]),
            ("redis://127.0.0.1:notaport/", &["port", "url"]),
            ("redis://127.0.0.1:99999/", &["port", "url"]),
            ("redis://127.0.0.1/minus-one", &["database", "url"]),
            (
                "redis://user:correct-horse@127.0.0.1:notaport/",
                &["port", "url"],
            ),
            ("redis://user:correct-horse@:/x y", &["url", "host"]),
            (
                "gopher://user:correct-horse@127.0.0.1/",
                &["gopher", "scheme"],
            ),
            ("redis+unix://?pass=correct-horse", &["path", "socket"]),
            ("redis://127.0.0.1/?db=3", &["parameter", "url"]),
            (
                "redis://127.0.0.1/?password=correct-horse",
                &["parameter", "url"],
            ),
            (
                "redis+unix:///tmp/x?password=correct-horse",
                &["parameter", "url"],
            ),
            ("redis://127.0.0.1/0/1", &["database", "url"]),
            // Certificates that are not checked.
            ("rediss://127.0.0.1:1/#insecure", &["`root_certificate`"]),
        ],
        at: Some(|address| format!("redis://clerk:{SECRET}@{address}")),
        secure: Some(|url| url.replace("redis://", "rediss://")),
        unfit: Some(|servers| {
            let url = &servers.urls()[0];
            vec![
                (
                    Config::new(format!("{url}4000")),
                    &["db index is out of range"],
                ),
                (Config::new(url).credentials("", SECRET), &["password"]),
            ]
        }),
        accounts: Some(|| {
            let server = Server::with_password(SECRET);
            let (url, port) = (server.url(), server.port());
            let socket = |password: &str| {
                let socket = server.socket();
                Config::new(format!("redis+unix://{}?pass={password}", socket.display()))
            };
            let at = |user: &str| Config::new(format!("redis://{user}@127.0.0.1:{port}"));
            Accounts {
                right: vec![at(&format!(":{SECRET}")), socket(SECRET)],
                wrong: vec![
                    (at(&format!(":{WRONG}")), &["password", "credentials"]),
                    (Config::new(&url), &["password", "credentials", "auth"]),
                    (
                        Config::new(&url).credentials("nobody", SECRET),
                        &["password", "credentials"],
                    ),
                    (socket(WRONG), &["password", "credentials"]),
                ],
                servers: Box::new(vec![server]),
            }
        }),
        tls: Some(|certificates| {
            let server = Server::with(Some(SECRET), |directory, port| {
                tls_options(&certificates, directory, port)
            });
            let port = server.port();
            Secure {
                servers: Box::new(vec![server]),
                url: format!("rediss://:{SECRET}@127.0.0.1:{port}"),
                plain: Some(format!("redis://:{SECRET}@127.0.0.1:{port}")),
            }
        }),
        ..Inputs::default()
    }
}

/// `sentinel::access` tests what does not fit the servers.
pub fn sentinel() -> Inputs {
    const EXAMPLE: &[&str] = &["h1:26379,h2,h3/mymaster/0"];
    Inputs {
        urls: &[
            ("redis-sentinel://127.0.0.1:1/mymaster/x", EXAMPLE),
            ("redis-sentinel://127.0.0.1:1", EXAMPLE),
            (
                "redis-sentinel://127.0.0.1:1,,127.0.0.1:2/mymaster",
                EXAMPLE,
            ),
            ("redis-sentinel://u:correct-horse@h:x/mymaster", EXAMPLE),
        ],
        at: Some(|address| format!("redis-sentinel://clerk:{SECRET}@{address}/mymaster")),
        ..Inputs::default()
    }
}

/// `cluster::access` tests what does not fit the nodes.
pub fn cluster() -> Inputs {
    Inputs {
        urls: &[
            ("redis-cluster://127.0.0.1:1/1", &["database"]),
            (
                "redis-cluster://127.0.0.1:1,,127.0.0.1:2",
                &["h1:6379,h2,h3"],
            ),
            ("redis-cluster://u:correct-horse@h:x", &["h1:6379,h2,h3"]),
        ],
        at: Some(|address| format!("redis-cluster://clerk:{SECRET}@{address}")),
        ..Inputs::default()
    }
}

/// `quorum::connecting` tests the members.
pub fn quorum() -> Inputs {
    Inputs::default()
}

pub fn postgres() -> Inputs {
    Inputs {
        urls: &[
            ("postgres://", &["url", "host"]),
            ("postgres://127.0.0.1:notaport/db", &["port", "url"]),
            ("postgresql://127.0.0.1:99999/db", &["port", "url"]),
            (
                "postgres://user:correct-horse@127.0.0.1:notaport/db",
                &["port", "url"],
            ),
            (
                "postgres://user:correct-horse@127.0.0.1,127.0.0.2:x/db",
                &["port", "url"],
            ),
            // An `@` in a password is no separator, and what follows it no host.
            (
                "postgres://user:corr@ect-horse@127.0.0.1/db",
                &["`@`", "%40"],
            ),
            (
                "postgres://user:correct-horse@127.0.0.1/db@x",
                &["`@`", "%40"],
            ),
            (
                "postgres://user:corr/ect-horse@127.0.0.1/db",
                &["`@`", "%40"],
            ),
            (
                "postgres://user:correct-horse@127.0.0.1,/db",
                &["host", "url"],
            ),
            ("postgres://127.0.0.1/db?shcema=locks", &["`shcema`"]),
            ("postgres://127.0.0.1/db?schema=", &["schema", "parameter"]),
            ("postgres://127.0.0.1/db?schema=Shop", &["schema"]),
            (
                "postgres://127.0.0.1/db?sslmode=prefer",
                &["sslmode", "tls"],
            ),
            ("postgres://127.0.0.1/db?listen=nowhere:x", &["`listen`"]),
            (
                "postgres://127.0.0.1/db?listen=user:correct-horse@127.0.0.1",
                &["`@`", "%40"],
            ),
            ("postgres://127.0.0.1/db?listen=[::1:5432", &["`listen`"]),
        ],
        at: Some(|address| format!("postgres://clerk:{SECRET}@{address}/postgres")),
        secure: Some(|url| format!("{url}?sslmode=require")),
        unfit: Some(|servers| {
            let nowhere = servers.urls()[0].replace("/postgres", "/nowhere");
            vec![(Config::new(nowhere), &["nowhere"])]
        }),
        accounts: Some(|| {
            let server = Postgres::start();
            let role = format!("CREATE ROLE clerk SUPERUSER LOGIN PASSWORD '{SECRET}'");
            server.execute(&role);
            server.require_password();
            let at = |user: &str| Config::new(server.url_for(user));
            let clerk = |password| Config::new(server.url()).credentials("clerk", password);
            Accounts {
                right: vec![at(&format!("clerk:{SECRET}")), clerk(SECRET)],
                wrong: vec![
                    (at(&format!("clerk:{WRONG}")), &["password", "credentials"]),
                    (
                        at(&format!("nobody:{SECRET}")),
                        &["password", "credentials"],
                    ),
                    (at("clerk"), &["password", "credentials"]),
                    (clerk(WRONG), &["password", "credentials"]),
                ],
                servers: Box::new(Pooled::from(server)),
            }
        }),
        tls: Some(|certificates| {
            let server = Postgres::with_tls(&certificates);
            Secure {
                url: format!("{}?sslmode=require", server.url()),
                plain: None,
                servers: Box::new(Pooled::from(server)),
            }
        }),
        ..Inputs::default()
    }
}

/// Its servers are those of PostgreSQL.
pub fn pooler() -> Inputs {
    Inputs::default()
}

pub fn etcd() -> Inputs {
    Inputs {
        urls: &[
            ("etcd://", &["a host is missing"]),
            ("etcd://u:correct-horse@h:x", &["a port is not a number"]),
            ("etcd://u:correct-horse@h/path", &["only hosts and ports"]),
        ],
        at: Some(|address| format!("etcd://clerk:{SECRET}@{address}")),
        secure: Some(|url| url.replace("etcd://", "etcds://")),
        accounts: Some(|| {
            let etcd = with_users();
            let user = |user, password| Config::new(etcd.url()).credentials(user, password);
            Accounts {
                right: vec![user("locks", SECRET)],
                wrong: vec![
                    (user("locks", WRONG), &["check the user and the password"]),
                    (user("nobody", SECRET), &["grant the user's role"]),
                    (Config::new(etcd.url()), &["give the url a user"]),
                ],
                servers: Box::new(etcd),
            }
        }),
        tls: Some(|certificates| {
            let etcd = Etcd::with_tls(certificates);
            Secure {
                url: etcd.url(),
                plain: Some(etcd.url().replace("etcds://", "etcd://")),
                servers: Box::new(etcd),
            }
        }),
        lacks_replicas: true,
        too_long: Some(70_000),
        ..Inputs::default()
    }
}

pub fn zookeeper() -> Inputs {
    const EXAMPLE: &[&str] = &["h1:2181"];
    Inputs {
        urls: &[
            ("zookeeper://me:correct-horse@", EXAMPLE),
            ("zookeeper://me:correct-horse@a:port", EXAMPLE),
            ("zookeeper://me:correct-horse@a,,b", EXAMPLE),
            ("zookeeper://me:correct-horse@a/x?y=z", EXAMPLE),
            ("zookeeper://me:correct-horse@[::1", EXAMPLE),
        ],
        at: Some(|address| format!("zookeeper://clerk:{SECRET}@{address}")),
        secure: Some(|url| url.replace("zookeeper://", "zookeepers://")),
        unfit: Some(|servers| {
            let config = Config::new(&servers.urls()[0]).ttl(Duration::from_secs(61));
            vec![(config, &["maxsessiontimeout"])]
        }),
        accounts: Some(|| {
            let zookeeper = ZooKeeper::start();
            let me = |password| Config::new(zookeeper.url()).credentials("me", password);
            Accounts {
                right: vec![me(SECRET)],
                wrong: vec![(me(WRONG), &["access control"])],
                servers: Box::new(zookeeper),
            }
        }),
        tls: Some(|certificates| {
            let zookeeper = ZooKeeper::with_tls(&certificates);
            let url = zookeeper.secure_url();
            Secure {
                plain: Some(url.replace("zookeepers://", "zookeeper://")),
                url: url.replace("://", &format!("://me:{SECRET}@")),
                servers: Box::new(zookeeper),
            }
        }),
        lacks_replicas: true,
        too_long: Some(9000),
    }
}
