//! A server of MariaDB.

use std::thread;

use crate::fault::Kind;
use lock_test_support::mariadb::MariaDb;
use lock_test_support::proxy::Proxy;
use lock_test_support::rng::Rng;
use lock_test_support::servers::Servers;
use lock_test_support::time::millis;

use super::links::Mesh;
use super::{Deletion, Deployment, Limits, Standalone, name};

pub struct InMariaDb {
    links: Mesh,
    server: MariaDb,
    limits: Limits,
}

impl InMariaDb {
    pub fn start(rng: &mut Rng) -> Self {
        let limits = Self::limits();
        Self::with(match rng.one_in(4) {
            true => Limits {
                variant: "another client deletes locks",
                can: [&limits.can[..], &[Kind::KeyDeleted]].concat(),
                exclusive: false,
                ..limits
            },
            false => limits,
        })
    }

    /// The server returns with all that it granted: two holders are never excused.
    pub fn limits() -> Limits {
        Limits {
            variant: "on its own",
            can: [
                &Kind::PROCESS[..],
                &[Kind::ServerKilled, Kind::ServerStopped],
                &Kind::without_messages(),
                &[Kind::ClockStepped, Kind::BackendsEnded, Kind::ReadOnly],
            ]
            .concat(),
            ..Standalone::that_remembers(millis(800))
        }
    }

    pub fn with(limits: Limits) -> Self {
        let server = MariaDb::start();
        Self {
            links: Mesh::to(&server, limits.processes, Proxy::to),
            server,
            limits,
        }
    }
}

impl Deployment for InMariaDb {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn urls(&self, process: usize) -> String {
        self.links.urls(process)
    }

    fn servers(&self) -> &dyn Servers {
        &self.server
    }

    fn servers_mut(&mut self) -> &mut dyn Servers {
        &mut self.server
    }

    fn proxy(&self, process: usize, server: usize) -> Option<&Proxy> {
        self.links.proxy(process, server)
    }

    fn deletion(&self, kind: Kind, key: u32, _: usize) -> Option<Deletion> {
        let (socket, lock) = (self.server.socket(), name(key));
        let delete = format!("DELETE FROM distributed_locks WHERE name = '{lock}'");
        let delete = move || MariaDb::query_at(&socket, &delete).is_ok();
        (kind == Kind::KeyDeleted).then_some(Box::new(delete))
    }

    fn disturb(&mut self, kind: Kind) {
        if kind == Kind::ReadOnly {
            self.server.query("SET GLOBAL read_only = ON");
        }
        // The user of the workers may write nevertheless, and looks only when it connects.
        self.server.end_sessions();
    }

    /// The server may be stopped, or gone: it accepts writes when it returns.
    fn calm(&mut self, kind: Kind) {
        if kind == Kind::ReadOnly {
            let socket = self.server.socket();
            thread::spawn(move || MariaDb::query_at(&socket, "SET GLOBAL read_only = OFF"));
        }
    }
}
