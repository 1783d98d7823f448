//! A PostgreSQL server, in one variant behind a pooler.

use tokio::runtime::Runtime;
use tokio_postgres::Client;

use crate::fault::Kind;
use crate::source::Source;
use lock_test_support::clocks::Clocks;
use lock_test_support::pgbouncer::PgBouncer;
use lock_test_support::postgres::{Postgres, url_at};
use lock_test_support::proxy::Proxy;
use lock_test_support::rng::Rng;
use lock_test_support::time::millis;

use super::{Deployment, Host, Limits, Standalone};

pub struct InPostgres {
    /// One for each worker process.
    links: Vec<Proxy>,
    pooler: Option<PgBouncer>,
    server: Postgres,
    /// Keeps dead rows, while the vacuum is held up.
    snapshot: Option<Snapshot>,
    limits: Limits,
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
                true,
                Limits {
                    variant: "behind a pooler",
                    can: [&limits.can[..], &[Kind::PoolerRestarted]].concat(),
                    ..limits
                },
            ),
            2 => Self::with(
                false,
                Limits {
                    variant: "is late",
                    clocks: true,
                    exclusive: false,
                    ..limits
                },
            ),
            _ => Self::with(false, limits),
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

    pub fn with(pooled: bool, limits: Limits) -> Self {
        let settings = [
            ("autovacuum_naptime", "1s"),
            // What is not flushed at a commit is lost in a crash.
            ("wal_writer_delay", "10s"),
        ];
        let server = match limits.clocks {
            true => Postgres::by(Clocks::correct(), &settings),
            false => Postgres::with(&settings),
        };
        let pooler = pooled.then(|| PgBouncer::to(server.port()));
        let port = pooler.as_ref().map_or(server.port(), PgBouncer::port);
        Self {
            links: (0..limits.processes).map(|_| Proxy::to(port)).collect(),
            pooler,
            server,
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
        url_at(self.links[process].port())
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
        self.links.get(process)
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
