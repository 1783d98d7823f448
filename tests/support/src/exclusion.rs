//! Checks that the holders of a lock, which may be clients of several kinds, exclude each other.

use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The limit of a reader.
pub const UNLIMITED: usize = usize::MAX;

/// The holders of one lock, as far as each of them knows.
#[derive(Default)]
pub struct Exclusion(Mutex<State>);

#[derive(Default)]
struct State {
    holders: Vec<Holder>,
    next: u64,
}

struct Holder {
    number: u64,
    name: String,
    limit: usize,
    until: Instant,
}

/// A client that holds the lock, until this is dropped.
pub struct Holding {
    of: Arc<Exclusion>,
    number: u64,
}

impl Exclusion {
    /// Records a client that may hold the lock with that many others, itself included, until its lease ends.
    /// Panics if another holder whose lease runs excludes it.
    ///
    /// The readers of one process may share one hold, so a limit counts only exclusive holders and permits.
    pub fn enter(self: &Arc<Self>, name: impl Display, limit: usize, until: Instant) -> Holding {
        let mut state = self.state();
        let now = Instant::now();
        state.holders.retain(|holder| holder.until > now);
        state.next += 1;
        let number = state.next;
        if until > now {
            let name = name.to_string();
            state.holders.push(Holder {
                number,
                name,
                limit,
                until,
            });
        }
        if let Some(names) = state.too_many() {
            drop(state);
            panic!("they hold the lock at the same time: {names}");
        }
        Holding {
            of: self.clone(),
            number,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn too_many(&self) -> Option<String> {
        let limited = self.holders.iter().filter(|it| it.limit != UNLIMITED);
        let lowest = limited.clone().map(|it| it.limit).min();
        let is_exclusive = lowest == Some(1);
        let count = if is_exclusive {
            self.holders.len()
        } else {
            limited.count()
        };
        (count > lowest.unwrap_or(UNLIMITED)).then(|| {
            let names: Vec<_> = self.holders.iter().map(|it| &*it.name).collect();
            names.join(", ")
        })
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        let mut state = self.of.state();
        state.holders.retain(|holder| holder.number != self.number);
    }
}
