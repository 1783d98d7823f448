//! A PostgreSQL server, in one variant behind a pooler, in another with a synchronous standby, which takes
//! over at most once.

use tokio::runtime::Runtime;
use tokio_postgres::Client;

use crate::fault::{FaultTarget, Kind};
use crate::source::Source;
use lock_test_support::clocks::Clocks;
use lock_test_support::pgbouncer::PgBouncer;
use lock_test_support::postgres::Postgres;
use lock_test_support::proxy::Proxy;
use lock_test_support::rng::Rng;
use lock_test_support::servers::{Pooled, Servers};
use lock_test_support::time::millis;

use super::links::Mesh;
use super::{Deployment, Limits, Standalone};

pub struct InPostgres {
    links: Mesh,
    /// The links to the standby.
    standby_links: Option<Mesh>,
    pooled: Pooled,
    /// It receives what the server commits, and has received nothing that the server checkpoints.
    standby: Option<Pooled>,
    /// The server that has been replaced.
    former: Option<Pooled>,
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
        Limits {
            variant: "on its own",
            can: [
                &Kind::PROCESS[..],
                &[Kind::ServerKilled, Kind::ServerStopped],
                &Kind::without_messages(),
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
        let server = match limits.clocks {
            true => Postgres::by(Clocks::correct(), &settings),
            false => Postgres::with(&settings),
        };
        let mut pooled = match beside {
            Beside::Pooler => Pooled::behind_pooler(server),
            _ => Pooled::from(server),
        };
        let standby = (beside == Beside::Standby).then(|| Pooled::from(pooled.server.standby()));
        if standby.is_some() {
            pooled.server.wait_for_standby();
        }
        let links = |pooled: &Pooled| Mesh::to(pooled, limits.processes, Proxy::to);
        Self {
            links: links(&pooled),
            standby_links: standby.as_ref().map(links),
            pooled,
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
            _client: runtime.block_on(self.pooled.server.open_snapshot()),
            _runtime: runtime,
        }
    }
}

impl Deployment for InPostgres {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn urls(&self, process: usize) -> String {
        let url = self.links.urls(process);
        match &self.standby_links {
            Some(links) => {
                let standby = links.urls(process);
                let (_, standby) = standby.split_once('@').expect("it names a user");
                format!("{},{standby}", url.trim_end_matches("/postgres"))
            }
            None => url,
        }
    }

    fn servers(&self) -> &dyn Servers {
        &self.pooled
    }

    fn servers_mut(&mut self) -> &mut dyn Servers {
        &mut self.pooled
    }

    fn proxy(&self, process: usize, server: usize) -> Option<&Proxy> {
        let replaced = self
            .standby_links
            .as_ref()
            .filter(|_| self.former.is_some());
        replaced.unwrap_or(&self.links).proxy(process, server)
    }

    /// The server is gone for good.
    fn fail_over(&mut self, _key: u32) -> bool {
        let Some(mut standby) = self.standby.take() else {
            return false;
        };
        self.pooled.server.kill();
        standby.server.promote();
        self.former = Some(std::mem::replace(&mut self.pooled, standby));
        true
    }

    fn disturb(&mut self, kind: Kind) {
        match kind {
            Kind::PoolerRestarted => self.pooled.pooler.iter_mut().for_each(PgBouncer::kill),
            Kind::BackendsEnded => drop(self.pooled.server.terminate_connections()),
            _ => self.snapshot = Some(self.open_snapshot()),
        }
    }

    fn calm(&mut self, kind: Kind) {
        match kind {
            Kind::PoolerRestarted => self.pooled.pooler.iter_mut().for_each(PgBouncer::restart),
            Kind::BackendsEnded => {}
            _ => self.snapshot = None,
        }
    }

    fn witnessed(&self) -> Option<Source> {
        Some(Source::Postgres {
            directory: self.pooled.server.socket_directory().to_owned(),
            port: self.pooled.server.port(),
        })
    }
}
