//! Sees who relies on a lock, and when.

use crate::engine::token::Token;
use crate::limit::Limit;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Mutex;
use tokio::time::Instant;

#[derive(Default)]
pub(crate) struct Witness(Mutex<Seen>);

#[derive(Default)]
struct Seen {
    /// Until when each relies on its lease.
    holders: HashMap<Token, Instant>,
    /// Transactions that will commit.
    transactions: Vec<Token>,
    /// Which exclusive token each shares the lock instead of.
    instead_of: HashMap<Token, Token>,
    /// From whom the lock was, or will be taken by force.
    forced: HashSet<Token>,
    /// All fencing tokens that any has seen.
    numbers: BTreeSet<u64>,
    holds: u64,
    commits: u64,
}

impl Seen {
    /// Fails unless all that rely on the lock now may share it.
    fn check(&self) {
        let now = Instant::now();
        let relies =
            |(token, until): &(&Token, &Instant)| **until > now && !self.forced.contains(*token);
        let relying = self.holders.iter().filter(relies);
        let mut tokens: HashSet<Token> = relying.map(|(token, _)| *token).collect();
        tokens.extend(&self.transactions);
        // A transaction may outlast the downgrade of its lock.
        for (shares, exclusive) in &self.instead_of {
            if self.transactions.contains(exclusive) {
                tokens.remove(shares);
            }
        }
        let lowest = tokens.iter().map(|it| it.limit()).min();
        let lowest = lowest.unwrap_or(Limit::UNLIMITED);
        let fits = tokens.is_empty() || lowest.fits(tokens.len() - 1, lowest);
        assert!(fits, "{tokens:?} hold it together at {now:?}");
    }
}

impl Witness {
    fn see<T>(&self, see: impl FnOnce(&mut Seen) -> T) -> T {
        see(&mut self
            .0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner()))
    }

    pub(crate) fn relies(&self, token: Token, until: Instant) {
        self.see(|seen| {
            let is_new = seen.holders.insert(token, until).is_none();
            seen.holds += u64::from(is_new);
            seen.check();
        });
    }

    pub(crate) fn relies_no_more(&self, token: Token) {
        self.see(|seen| seen.holders.remove(&token));
    }

    pub(crate) fn shares(&self, token: Token, instead_of: Token) {
        self.see(|seen| {
            seen.holders.remove(&instead_of);
            seen.instead_of.insert(token, instead_of);
        });
    }

    pub(crate) fn begins(&self, token: Token) {
        self.see(|seen| {
            seen.transactions.push(token);
            seen.check();
        });
    }

    pub(crate) fn commits(&self, token: Token) {
        self.see(|seen| {
            seen.check();
            let place = seen.transactions.iter().position(|it| *it == token);
            seen.transactions.swap_remove(place.expect("it has begun"));
            seen.commits += 1;
        });
    }

    /// The lock is about to be taken from it.
    pub(crate) fn is_forced(&self, token: Token) {
        self.see(|seen| seen.forced.insert(token));
    }

    pub(crate) fn fence(&self) -> u64 {
        self.see(|seen| seen.numbers.last().copied().unwrap_or_default())
    }

    /// Fails unless a fencing token is greater than what was the greatest when it was asked for.
    pub(crate) fn draws(&self, number: u64, before: u64) {
        assert!(number > before, "{number} comes after {before}");
        let is_new = self.see(|seen| seen.numbers.insert(number));
        assert!(is_new, "{number} was drawn twice");
    }

    /// Returns the number of holds, and of commits.
    pub(crate) fn counts(&self) -> [u64; 2] {
        self.see(|seen| [seen.holds, seen.commits])
    }
}
