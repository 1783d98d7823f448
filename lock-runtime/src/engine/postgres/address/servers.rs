//! The servers that a URL names, of which one accepts writes.

use crate::credentials::Login;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio_postgres::Config;
use tokio_postgres::config::Host;

/// Displays the addresses only.
pub(crate) struct Servers {
    /// Each with a single host, since a configuration gives all of its hosts one time limit.
    each: Vec<Config>,
    /// The one that was connected to last.
    last: AtomicUsize,
}

impl Servers {
    /// Returns the servers whose addresses are those of `hosts`, and everything else is that of `like`. Fails
    /// with the reason if an address is missing.
    pub(crate) fn new(hosts: &Config, like: &Config) -> Result<Servers, &'static str> {
        check(hosts)?;
        let each = (0..count(hosts)).map(|n| nth(n, hosts, like));
        Ok(Servers {
            each: each.collect(),
            last: AtomicUsize::new(0),
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.each.len()
    }

    /// Returns the servers with their numbers, in the order in which to try them.
    pub(crate) fn in_order(&self) -> impl Iterator<Item = (usize, &Config)> {
        let last = self.last.load(Ordering::Relaxed);
        let (before, from) = self.each.split_at(last.min(self.each.len()));
        let numbers = (last..self.each.len()).chain(0..last);
        numbers.zip(from.iter().chain(before))
    }

    /// Lets the next connection begin with that server: it accepted writes.
    pub(crate) fn begin_with(&self, number: usize) {
        self.last.store(number, Ordering::Relaxed);
    }
}

fn count(hosts: &Config) -> usize {
    hosts.get_hosts().len().max(hosts.get_hostaddrs().len())
}

fn check(hosts: &Config) -> Result<(), &'static str> {
    let (names, addresses, ports) = (hosts.get_hosts(), hosts.get_hostaddrs(), hosts.get_ports());
    let count = count(hosts);
    let fits = |length: usize| length == 0 || length == count;
    if count == 0 {
        return Err("it names no host");
    }
    if !fits(names.len()) || !fits(addresses.len()) || (ports.len() != 1 && !fits(ports.len())) {
        return Err("it does not name one address and one port for each host");
    }
    let is_empty = |host: &Host| matches!(host, Host::Tcp(name) if name.is_empty());
    if names.iter().any(is_empty) || ports.contains(&0) {
        return Err("a host is empty, or a port is 0");
    }
    Ok(())
}

/// Returns the configuration for the host of that number alone.
fn nth(n: usize, hosts: &Config, like: &Config) -> Config {
    let mut config = without_hosts(like);
    match hosts.get_hosts().get(n) {
        Some(Host::Tcp(name)) => {
            config.host(name);
        }
        // Its bytes never leave the machine, and it has no name that a certificate could prove.
        #[cfg(unix)]
        Some(Host::Unix(path)) => {
            config
                .host_path(path)
                .ssl_mode(tokio_postgres::config::SslMode::Disable);
        }
        None => {}
    }
    if let Some(address) = hosts.get_hostaddrs().get(n) {
        config.hostaddr(*address);
    }
    config.port(port(n, hosts));
    config
}

fn port(n: usize, hosts: &Config) -> u16 {
    let ports = hosts.get_ports();
    ports.get(n).or(ports.first()).copied().unwrap_or(5432)
}

fn without_hosts(like: &Config) -> Config {
    let mut config = Config::new();
    config
        .ssl_mode(like.get_ssl_mode())
        .ssl_negotiation(like.get_ssl_negotiation())
        .keepalives(like.get_keepalives())
        .keepalives_idle(like.get_keepalives_idle())
        .target_session_attrs(like.get_target_session_attrs())
        .channel_binding(like.get_channel_binding())
        .load_balance_hosts(like.get_load_balance_hosts());
    if let Some(user) = like.get_user() {
        config.user(user);
    }
    if let Some(password) = like.get_password() {
        config.password(password);
    }
    if let Some(name) = like.get_dbname() {
        config.dbname(name);
    }
    if let Some(options) = like.get_options() {
        config.options(options);
    }
    if let Some(name) = like.get_application_name() {
        config.application_name(name);
    }
    if let Some(timeout) = like.get_connect_timeout() {
        config.connect_timeout(*timeout);
    }
    if let Some(timeout) = like.get_tcp_user_timeout() {
        config.tcp_user_timeout(*timeout);
    }
    if let Some(interval) = like.get_keepalives_interval() {
        config.keepalives_interval(interval);
    }
    if let Some(retries) = like.get_keepalives_retries() {
        config.keepalives_retries(retries);
    }
    config
}

/// Returns the configuration with a time limit for each address of the host's name: one that drops packets
/// leaves time for another.
pub(crate) fn within(config: &Config, time: Duration) -> Config {
    let mut config = config.clone();
    config.connect_timeout(time / 2);
    config
}

/// Returns the configuration with that user and password; an empty user is the one that it has.
pub(crate) fn as_user(config: &Config, login: &Option<Login>) -> Config {
    let mut config = config.clone();
    if let Some((user, password)) = login {
        if !user.is_empty() {
            config.user(user);
        }
        config.password(password);
    }
    config
}

/// Returns the addresses of a configuration, separated by commas.
pub(crate) fn addresses(config: &Config) -> String {
    let (names, addresses) = (config.get_hosts(), config.get_hostaddrs());
    let shown = (0..count(config)).map(|n| {
        let host = match (names.get(n), addresses.get(n)) {
            (Some(Host::Tcp(name)), _) => name.clone(),
            #[cfg(unix)]
            (Some(Host::Unix(path)), _) => path.display().to_string(),
            (None, Some(address)) => address.to_string(),
            (None, None) => String::new(),
        };
        let port = port(n, config);
        match host.contains(':') {
            true => format!("[{host}]:{port}"),
            false => format!("{host}:{port}"),
        }
    });
    shown.collect::<Vec<_>>().join(",")
}

impl fmt::Display for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: Vec<_> = self.each.iter().map(addresses).collect();
        f.write_str(&shown.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servers(url: &str) -> Result<Servers, &'static str> {
        let config = url.parse().unwrap();
        Servers::new(&config, &config)
    }

    #[test]
    fn each_server_has_all_options() {
        const OPTIONS: &str = "db?options=-c%20geqo%3Doff&application_name=a&sslmode=require&sslnegotiation=direct\
            &connect_timeout=3&tcp_user_timeout=4&keepalives=0&keepalives_idle=5&keepalives_interval=6\
            &keepalives_retries=7&target_session_attrs=read-write&channel_binding=disable\
            &load_balance_hosts=random";
        let url = |hosts: &str| format!("postgres://u:p@{hosts}/{OPTIONS}");
        let found = servers(&url("one,[::1]:2")).unwrap();
        assert_eq!(found.to_string(), "one:5432,[::1]:2");
        let each: Vec<Config> = ["one", "[::1]:2"].map(|it| url(it).parse().unwrap()).into();
        assert_eq!(found.each, each);
    }

    #[test]
    fn the_last_one_found_is_tried_first() {
        let found = servers("postgres://a,b,c").unwrap();
        let order = || {
            found
                .in_order()
                .map(|(number, _)| number)
                .collect::<Vec<_>>()
        };
        assert_eq!(order(), [0, 1, 2]);
        found.begin_with(1);
        assert_eq!(order(), [1, 2, 0]);
        let names: Vec<_> = found
            .in_order()
            .map(|(_, config)| addresses(config))
            .collect();
        assert_eq!(names, ["b:5432", "c:5432", "a:5432"]);
    }

    #[test]
    fn servers_without_an_address_are_refused() {
        for url in [
            "postgres://",
            "postgres:///db",
            "postgres://one,",
            "postgres://one:0",
            "postgres://one,two?port=1",
            "postgres://one,two?hostaddr=127.0.0.1",
        ] {
            assert!(servers(url).is_err(), "{url}");
        }
        assert!(servers("postgres:///?hostaddr=127.0.0.1,127.0.0.2&port=1").is_ok());
        assert!(servers("postgres://%2Frun%2Fpostgresql:1/db").is_ok());
    }
}
