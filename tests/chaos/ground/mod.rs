//! Where a schedule takes place, and what may happen there without more than was promised being asked.

mod cluster;
mod failover;
mod links;
mod listener;
mod memory;
mod one_node;
mod quorum;
mod sentinel;
mod standalone;

use std::path::PathBuf;
use std::time::Duration;

use crate::crew::Environment;
use crate::fault::Kind;
use crate::support::dice::Dice;
use crate::support::proxy::Proxy;
use crate::support::server::Server;
pub use one_node::OneNode;
pub use standalone::Standalone;

pub const KEYS: u32 = 3;
pub const SEATS: usize = 3;

/// What a lock is called on the server.
pub fn name(key: u32) -> String {
    format!("lock:door:{key}")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    Memory,
    Standalone,
    Sentinel,
    Cluster,
    Quorum,
}

impl Place {
    pub const ALL: [Self; 5] = [
        Self::Memory,
        Self::Standalone,
        Self::Sentinel,
        Self::Cluster,
        Self::Quorum,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Standalone => "standalone",
            Self::Sentinel => "sentinel",
            Self::Cluster => "cluster",
            Self::Quorum => "quorum",
        }
    }

    /// The seed chooses how it is set up.
    pub fn start(self, seed: u64) -> Box<dyn Ground> {
        let mut dice = Dice::with(seed.wrapping_mul(0xD6E8_FEB8_6659_FD93));
        dice.roll(2);
        match self {
            Self::Memory => Box::new(memory::Memory::start(seed)),
            Self::Standalone => Box::new(Standalone::start(&mut dice)),
            Self::Sentinel => Box::new(sentinel::Sentinel::start(&mut dice)),
            Self::Cluster => Box::new(cluster::InCluster::start(&mut dice)),
            Self::Quorum => Box::new(quorum::Quorum::start(&mut dice)),
        }
    }
}

pub trait Ground: Send {
    fn rules(&self) -> &Rules;

    /// What a worker connects to that sits there: a URL, or several, separated by spaces.
    fn urls(&self, seat: usize) -> String;

    /// What is set for the processes that sit there.
    fn environment(&self, _seat: usize) -> Environment {
        Vec::new()
    }

    fn server(&mut self, number: usize) -> &mut Server;

    /// Which server serves that lock, if there is one that does.
    fn serving(&self, _key: u32) -> Option<usize> {
        Some(0)
    }

    /// What is between a worker and a server.
    fn proxy(&self, seat: usize, server: usize) -> Option<&Proxy>;

    /// Whether something may befall a server now.
    fn may_begin(&self) -> bool {
        true
    }

    /// It has just been killed.
    fn killed(&mut self, _number: usize) {}

    /// Whether a server that was killed long enough ago may come back empty.
    fn may_return(&self, _number: usize) -> bool {
        true
    }

    /// Whether another one takes the place of a server that is silent, and may not know its locks.
    fn forgets_by(&self, _kind: Kind, _server: usize) -> bool {
        false
    }

    /// Another server is to serve that lock; whether that begins.
    fn fail_over(&mut self, _key: u32) -> bool {
        false
    }

    /// That lock is to move to another server; it can be in both places until that ends.
    fn begin_move(&mut self, _key: u32) -> Option<Move> {
        None
    }

    /// Whether it has ended by that.
    fn end_move(&mut self, _move: Move) -> bool {
        true
    }

    /// All is well again, on the servers' side.
    fn is_settled(&self) -> bool {
        true
    }

    /// Where it can be seen what the servers have, if it is one server that has it.
    fn socket(&self) -> Option<PathBuf> {
        None
    }

    /// What is left of locks and queues.
    fn leftovers(&self) -> Vec<String>;
}

/// The options of a server that remembers all that it acknowledged, and sleeps when it is told to.
fn durable() -> Vec<String> {
    let options = [
        ["--appendonly", "yes"],
        ["--appendfsync", "always"],
        ["--enable-debug-command", "yes"],
    ];
    options.concat().into_iter().map(str::to_owned).collect()
}

/// The options of a server that is alone or in a quorum.
fn open_to_all() -> Vec<String> {
    let (user, password) = ACCOUNT;
    let mut options = durable();
    let account = format!("--user {user} on >{password} ~* &* +@all");
    options.extend(account.split(' ').map(str::to_owned));
    options
}

/// Whose network goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    Nobodys,
    /// That between one worker and one server, each.
    OfWorkers,
    /// That of a server, for all.
    OfServers,
}

/// A slot that goes from one server to another.
#[derive(Clone, Copy, Debug)]
pub struct Move {
    pub slot: u16,
    pub from: usize,
    pub to: usize,
}

#[derive(Clone, Debug)]
pub struct Rules {
    pub variant: &'static str,
    pub ttl: Duration,
    pub keys: u32,
    /// How many worker processes there are, and how many lock managers each has.
    pub seats: usize,
    pub managers: u32,
    /// How many replicas must know of a lock.
    pub replicas: u32,
    pub servers: usize,
    /// Whether locks go from one server to another.
    pub changes: bool,
    pub links: Links,
    pub can: Vec<Kind>,
    /// Whether the clocks of servers are set.
    pub clocks: bool,
    /// How many servers may be away at a time.
    pub away: usize,
    /// So many of them leave the others unable to go on.
    pub needed: usize,
    /// A server that comes back empty stays away for so long at least, …
    pub absence: Duration,
    /// … and one that is stopped, for so long at most.
    pub stop: Duration,
    /// Whether two never hold one lock, whatever happens.
    pub exclusive: bool,
    /// Whether workers are an ACL user of their own, not the default one.
    pub account: bool,
    /// Whether another client listens to all messages.
    pub overheard: bool,
}

/// The ACL user that workers are if they have one of their own, and its password.
const ACCOUNT: (&str, &str) = ("worker", "secret");

impl Rules {
    pub fn credentials(&self) -> Option<(String, String)> {
        let (user, password) = ACCOUNT;
        self.account.then(|| (user.to_owned(), password.to_owned()))
    }

    /// Who the workers are for the servers.
    pub fn user(&self) -> &'static str {
        if self.account { ACCOUNT.0 } else { "default" }
    }
}
