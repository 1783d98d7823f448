//! A PostgreSQL server, in one variant behind a pooler, in another with a synchronous standby, which takes over at most once.

use tokio::runtime::Runtime;
use tokio_postgres::Client;

use crate::fault::{FaultTarget, Kind};
use crate::source::Source;
use lock_test_support::clocks::Clocks;
use lock_test_support::pgbouncer::PgBouncer;
use lock_test_support::postgres::{Postgres, url_at};
use lock_test_support::proxy::Proxy;
use lock_test_support::rng::Rng;
use lock_test_support::time::millis;

use super::{Deployment, Host, Limits, Standalone};

pub struct InPostgres {
    /// One for each worker process, …
    links: Vec<Proxy>,
    /// … and one to the standby.
    standby_links: Vec<Proxy>,
    pooler: Option<PgBouncer>,
    server: Postgres,
    /// It receives what the server commits, and has received nothing that the server checkpoints.
    standby: Option<Postgres>,
    /// The server that has been replaced.
    former: Option<Postgres>,
    /// Keeps dead rows, while the vacuum is held up.
    snapshot: Option<Snapshot>,
    limits: Limits,
}

/// What a server is deployed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    Nothing,
    Pooler,
    Standby,
}

/// A transaction that sees an old state, until it is dropped.
struct Snapshot {
    _client: Client,
    _runtime: Runtime,
}

impl InPostgres {
    pub fn start(rng: &mut Rng) -> Self {
        let limits = Self::limits();
        match rng.below(6) {
            0 | 1 => Self::with(
                Beside::Pooler,
                Limits {
                    variant: "behind a pooler",
                    can: [&limits.can[..], &[Kind::PoolerRestarted]].concat(),
                    ..limits
                },
            ),
            2 => Self::with(
                Beside::Nothing,
                Limits {
                    variant: "is late",
                    clocks: true,
                    exclusive: false,
                    ..limits
                },
            ),
            3 => Self::with(
                Beside::Standby,
                Limits {
                    variant: "with a standby",
                    // A server that returns waits for its standby, which may take a while.
                    can: limits
                        .can
                        .iter()
                        .copied()
                        .filter(|kind| kind.target() != FaultTarget::Server)
                        .chain([Kind::Failover])
                        .collect(),
                    ..limits
                },
            ),
            _ => Self::with(Beside::Nothing, limits),
        }
    }

    /// Every server that returns has all that it granted: two holders are excused only if its clock was set.
    pub fn limits() -> Limits {
        let network = Kind::NETWORK.iter();
        let network: Vec<_> = network
            .copied()
            .filter(|kind| *kind != Kind::MessagesLost)
            .collect();
        Limits {
            variant: "on its own",
            can: [
                &Kind::PROCESS[..],
                &[Kind::ServerKilled, Kind::ServerStopped],
                &network,
                &[Kind::ClockStepped, Kind::BackendsEnded, Kind::VacuumHeldUp],
            ]
            .concat(),
            ..Standalone::that_remembers(millis(800))
        }
    }

    pub fn with(beside: Beside, limits: Limits) -> Self {
        let settings = [
            ("autovacuum_naptime", "1s"),
            // What is not flushed at a commit is lost in a crash.
            ("wal_writer_delay", "10s"),
        ];
        let mut server = match limits.clocks {
            true => Postgres::by(Clocks::correct(), &settings),
            false => Postgres::with(&settings),
        };
        let pooler = (beside == Beside::Pooler).then(|| PgBouncer::to(server.port()));
        let standby = (beside == Beside::Standby).then(|| server.standby());
        if standby.is_some() {
            server.wait_for_standby();
        }
        let port = pooler.as_ref().map_or(server.port(), PgBouncer::port);
        let links = |port| (0..limits.processes).map(|_| Proxy::to(port)).collect();
        Self {
            links: links(port),
            standby_links: standby.as_ref().map_or(Vec::new(), |it| links(it.port())),
            pooler,
            server,
            standby,
            former: None,
            snapshot: None,
            limits,
        }
    }

    fn open_snapshot(&self) -> Snapshot {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        Snapshot {
            _client: runtime.block_on(self.server.open_snapshot()),
            _runtime: runtime,
        }
    }
}

impl Deployment for InPostgres {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn urls(&self, process: usize) -> String {
        let port = self.links[process].port();
        match self.standby_links.get(process) {
            Some(other) => {
                let other = other.port();
                format!("postgres://postgres@127.0.0.1:{port},127.0.0.1:{other}/postgres")
            }
            None => url_at(port),
        }
    }

    fn server(&mut self, _: usize) -> &mut dyn Host {
        &mut self.server
    }

    /// The pooler keeps connections of its own.
    fn clients(&mut self) -> Vec<String> {
        match self.pooler {
            Some(_) => Vec::new(),
            None => self.server.clients(),
        }
    }

    fn proxy(&self, process: usize, _: usize) -> Option<&Proxy> {
        let links = match self.former {
            Some(_) => &self.standby_links,
            None => &self.links,
        };
        links.get(process)
    }

    /// The server is gone for good.
    fn fail_over(&mut self, _key: u32) -> bool {
        let Some(mut standby) = self.standby.take() else {
            return false;
        };
        self.server.kill();
        standby.promote();
        self.former = Some(std::mem::replace(&mut self.server, standby));
        true
    }

    fn disturb(&mut self, kind: Kind) {
        match kind {
            Kind::PoolerRestarted => self.pooler.iter_mut().for_each(PgBouncer::kill),
            Kind::BackendsEnded => drop(self.server.terminate_connections()),
            _ => self.snapshot = Some(self.open_snapshot()),
        }
    }

    fn calm(&mut self, kind: Kind) {
        match kind {
            Kind::PoolerRestarted => self.pooler.iter_mut().for_each(PgBouncer::restart),
            Kind::BackendsEnded => {}
            _ => self.snapshot = None,
        }
    }

    fn witnessed(&self) -> Option<Source> {
        Some(Source::Postgres {
            directory: self.server.socket_directory().to_owned(),
            port: self.server.port(),
        })
    }

    fn leftovers(&self) -> Vec<String> {
        self.server.leftovers()
    }
}
