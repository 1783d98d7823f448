//! The command lines of the services.

use anyhow::{Context, bail};
use lock_runtime::Config;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

pub struct Options {
    pub listen: IpAddr,
    pub port: u16,
    pub database: PathBuf,
    pub lock: Config,
}

const OPTIONS: &str = "\
Options:
  --listen <address> where to listen; 0.0.0.0 in a container [default: 127.0.0.1]
  --port <number>    the port; 0 for any free one [default: 8080]
  --database <file>  where the orders are, for all instances the same [default: orders.db]
  --lock <url>       the lock server [default: the environment variable LOCK_URL]
  --help             prints this";

impl Options {
    /// Reads the command line; `--help` prints the requests that the service knows, too.
    pub fn from_args(program: &str, requests: &str) -> anyhow::Result<Options> {
        let mut arguments = std::env::args().skip(1);
        let mut listen = IpAddr::from(Ipv4Addr::LOCALHOST);
        let (mut port, mut database, mut lock) = (8080, PathBuf::from("orders.db"), None);
        while let Some(option) = arguments.next() {
            if option == "--help" || option == "-h" {
                println!(
                    "A service for orders.\n\nUsage: {program} [options]\n\n{OPTIONS}\n\n{requests}"
                );
                std::process::exit(0);
            }
            let mut value = || {
                arguments
                    .next()
                    .with_context(|| format!("`{option}` needs a value"))
            };
            match option.as_str() {
                "--listen" => listen = value()?.parse().context("`--listen` needs an address")?,
                "--port" => {
                    port = value()?
                        .parse()
                        .context("`--port` needs a number up to 65535")?
                }
                "--database" => database = value()?.into(),
                "--lock" => lock = Some(Config::new(value()?)),
                _ => bail!("`{option}` is not known; see `{program} --help`"),
            }
        }
        let lock = lock.map_or_else(Config::from_env, Ok)?;
        Ok(Options {
            listen,
            port,
            database,
            lock,
        })
    }
}
