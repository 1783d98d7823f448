//! Where a schedule takes place, and what may happen there without more than was promised being asked.

use std::time::Duration;

use crate::support::dice::Dice;
use crate::support::server::Server;
use crate::support::time::millis;

pub trait Ground {
    /// What the processes connect to: a URL, or several, separated by spaces.
    fn urls(&self) -> String;

    fn rules(&self) -> Rules;

    fn servers(&self) -> usize;

    fn server(&mut self, number: usize) -> &mut Server;

    /// Whether a server that was killed long enough ago may come back.
    fn may_return(&mut self, _number: usize) -> bool {
        true
    }

    /// All is well again, on the servers' side.
    fn until_settled(&self) {}
}

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

    fn servers(&self) -> usize {
        1
    }

    fn server(&mut self, _: usize) -> &mut Server {
        &mut self.server
    }
}
