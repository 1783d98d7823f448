//! Where a schedule takes place, and what may happen there without more than was promised being asked.

use std::time::Duration;

use crate::contender::{KEYS, key};
use crate::support::cluster::Cluster;
use crate::support::dice::Dice;
use crate::support::sentinel::{Sentinels, Setup};
use crate::support::server::Server;
use crate::support::time::millis;

pub trait Ground {
    /// What the processes connect to: a URL, or several, separated by spaces.
    fn urls(&self) -> String;

    fn rules(&self) -> Rules;

    /// Which server something happens to next, if that may be.
    fn victim(&self, dice: &mut Dice) -> Option<usize>;

    fn server(&mut self, number: usize) -> &mut Server;

    /// It has just been killed.
    fn killed(&mut self, _number: usize) {}

    /// Whether a server that was killed long enough ago may come back.
    fn may_return(&self, _number: usize) -> bool {
        true
    }

    /// All is well again, on the servers' side.
    fn until_settled(&self) {}

    /// What is left of those who were killed in a queue, once it was served.
    fn leftovers(&self) -> Vec<String> {
        Vec::new()
    }
}

const PATIENCE: Duration = millis(8000);

/// The rules of a schedule.
#[derive(Clone, Debug)]
pub struct Rules {
    pub ttl: Duration,
    /// How many servers may be away at a time.
    pub away: usize,
    /// A server that is killed stays away for so long at least, …
    pub absence: Duration,
    /// … and one that is stopped, for so long at most.
    pub stop: Duration,
    /// Whether two never hold one lock. Otherwise only their tokens are compared.
    pub exclusive: bool,
    /// How long a lock may be waited for at most when all is well again, behind those who died.
    pub patience: Duration,
}

pub struct Standalone {
    server: Server,
    rules: Rules,
}

impl Standalone {
    /// One that keeps what it has acknowledged, or one that comes back empty: when all leases have
    /// ended, or before.
    pub fn start(dice: &mut Dice) -> Self {
        let ttl = millis(800);
        let (keeps, absence, exclusive) = match dice.roll(3) {
            0 => (true, millis(0), true),
            1 => (false, ttl, true),
            _ => (false, millis(0), false),
        };
        let options = [["--appendonly", "yes"], ["--appendfsync", "always"]].concat();
        let options = options.into_iter().filter(|_| keeps).map(str::to_owned);
        Self {
            server: Server::with(None, |_, _| options.collect()),
            rules: Rules {
                ttl,
                away: 1,
                absence,
                stop: millis(2000),
                exclusive,
                patience: PATIENCE,
            },
        }
    }
}

impl Ground for Standalone {
    fn urls(&self) -> String {
        self.server.url()
    }

    fn rules(&self) -> Rules {
        self.rules.clone()
    }

    fn victim(&self, _: &mut Dice) -> Option<usize> {
        Some(0)
    }

    fn server(&mut self, _: usize) -> &mut Server {
        &mut self.server
    }
}

/// What happens when a master goes away.
#[derive(Clone, Copy)]
enum Failover {
    /// Nobody takes its place before all leases have ended, and by then it is away for good.
    Late,
    /// The first thing: what it knew may be lost, and it may still be asked when it comes back.
    Early,
}

impl Failover {
    fn by(dice: &mut Dice) -> Self {
        match dice.one_in(2) {
            true => Self::Early,
            false => Self::Late,
        }
    }

    fn rules(self) -> Rules {
        match self {
            Self::Late => Rules {
                ttl: millis(800),
                away: 1,
                absence: millis(800),
                // Too short to be noticed.
                stop: millis(600),
                exclusive: true,
                patience: PATIENCE,
            },
            Self::Early => Rules {
                ttl: millis(4000),
                away: 1,
                absence: millis(0),
                stop: millis(4000),
                exclusive: false,
                patience: PATIENCE,
            },
        }
    }

    /// One that is waited for needs somebody who can take the master's place.
    fn may_begin(self, settled: impl FnOnce() -> bool) -> Option<()> {
        match self {
            Self::Late => settled().then_some(()),
            Self::Early => Some(()),
        }
    }

    /// How long a master is silent before it counts as gone. A Sentinel counts from the last answer
    /// that it had, up to a second before.
    fn silence(self) -> Duration {
        match self {
            Self::Late => millis(2200),
            Self::Early => millis(1000),
        }
    }
}

pub struct Sentinel {
    all: Sentinels,
    failover: Failover,
    killed_master: Option<usize>,
}

impl Sentinel {
    pub fn start(dice: &mut Dice) -> Self {
        let failover = Failover::by(dice);
        let all = Sentinels::with(&Setup {
            down_after: failover.silence(),
            ..Setup::default()
        });
        Self {
            all,
            failover,
            killed_master: None,
        }
    }
}

impl Ground for Sentinel {
    fn urls(&self) -> String {
        self.all.url()
    }

    fn rules(&self) -> Rules {
        self.failover.rules()
    }

    /// Most often the master.
    fn victim(&self, dice: &mut Dice) -> Option<usize> {
        let any = dice.roll(Sentinels::SERVERS.len() as u64) as usize;
        let master = self.all.agreed().filter(|_| !dice.one_in(3));
        self.failover.may_begin(|| self.all.is_settled())?;
        Some(master.unwrap_or(any))
    }

    fn server(&mut self, number: usize) -> &mut Server {
        self.all.server_mut(number)
    }

    fn killed(&mut self, number: usize) {
        let another = self.all.agreed().is_some_and(|master| master != number);
        self.killed_master = (!another).then_some(number);
    }

    /// A master that comes back while it is still called so has forgotten everything.
    fn may_return(&self, number: usize) -> bool {
        match (self.failover, self.killed_master) {
            (Failover::Late, Some(master)) if master == number => {
                self.all.agreed().is_some_and(|now| now != number)
            }
            _ => true,
        }
    }

    fn until_settled(&self) {
        self.all.until_settled();
    }
}

pub struct InCluster {
    cluster: Cluster,
    failover: Failover,
    /// Of each lock.
    slots: Vec<u16>,
    /// What a node that was killed served.
    orphaned: Vec<u16>,
}

impl InCluster {
    pub fn start(dice: &mut Dice) -> Self {
        let failover = Failover::by(dice);
        let cluster = Cluster::plan().node_timeout(failover.silence()).start();
        let slot = |number| cluster.slot(&format!("lock:{}", key(number)));
        Self {
            slots: (0..KEYS).map(slot).collect(),
            cluster,
            failover,
            orphaned: Vec::new(),
        }
    }
}

impl Ground for InCluster {
    fn urls(&self) -> String {
        self.cluster.url()
    }

    fn rules(&self) -> Rules {
        Rules {
            // Nobody can say there that a process has gone, but that it hasn't asked for so long.
            patience: PATIENCE + millis(15_000),
            ..self.failover.rules()
        }
    }

    /// Most often one that serves a lock.
    fn victim(&self, dice: &mut Dice) -> Option<usize> {
        let any = dice.roll(self.cluster.len() as u64) as usize;
        let slot = self.slots[dice.roll(KEYS) as usize];
        let master = self.cluster.master_of(slot).filter(|_| !dice.one_in(3));
        self.failover.may_begin(|| self.cluster.is_settled())?;
        Some(master.unwrap_or(any))
    }

    fn server(&mut self, number: usize) -> &mut Server {
        self.cluster.node_mut(number)
    }

    fn killed(&mut self, _: usize) {
        let is_orphaned = |slot: &&u16| self.cluster.master_of(**slot).is_none();
        self.orphaned = self.slots.iter().filter(is_orphaned).copied().collect();
    }

    /// A node that comes back before others have taken its slots has forgotten what it had in them.
    fn may_return(&self, _: usize) -> bool {
        let is_served = |slot: &u16| self.cluster.master_of(*slot).is_some();
        matches!(self.failover, Failover::Early) || self.orphaned.iter().all(is_served)
    }

    fn until_settled(&self) {
        self.cluster.until_settled();
    }
}

pub struct Quorum {
    members: Vec<Server>,
    rules: Rules,
}

impl Quorum {
    /// Fewer than half are away at a time, or more: then nobody gets a lock, and still none is had
    /// twice. A member that is restarted has forgotten its locks: it stays away until all of them have
    /// ended, or only tokens are compared.
    pub fn of(members: usize, dice: &mut Dice) -> Self {
        let ttl = millis(800);
        let too_many = usize::from(dice.one_in(3));
        let exclusive = !dice.one_in(4);
        Self {
            members: (0..members).map(|_| Server::start()).collect(),
            rules: Rules {
                ttl,
                away: members / 2 + too_many,
                absence: if exclusive { ttl } else { millis(0) },
                stop: millis(2000),
                exclusive,
                patience: PATIENCE,
            },
        }
    }
}

impl Ground for Quorum {
    fn urls(&self) -> String {
        let urls: Vec<_> = self.members.iter().map(Server::url).collect();
        urls.join(" ")
    }

    fn rules(&self) -> Rules {
        self.rules.clone()
    }

    fn victim(&self, dice: &mut Dice) -> Option<usize> {
        Some(dice.roll(self.members.len() as u64) as usize)
    }

    fn server(&mut self, number: usize) -> &mut Server {
        &mut self.members[number]
    }

    /// A member that took no part in it may still know of them, for as long as a queue lives.
    fn leftovers(&self) -> Vec<String> {
        self.members.iter().flat_map(Server::leftovers).collect()
    }
}
