//! What this process knows of the locks that others have recalled.

use crate::engine::token::Token;
use crate::process::ProcessId;
use crate::util::sync::Mutex;
use crate::util::time::now;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

/// The greatest number of early recalls that are remembered. Those beyond it come again as long as others
/// wait.
const MOST_EARLY: usize = 64;

/// The greatest number of names that are remembered. Locks beyond it are kept again at once.
const MOST_NAMES: usize = 4096;

#[derive(Default)]
pub(crate) struct Recalls {
    /// The tokens of which this process knows no hold: maybe not yet, since a recall may overtake the reply
    /// to the acquisition.
    early: Mutex<VecDeque<Token>>,
    /// Until when the locks of these names are not kept again.
    names: Mutex<HashMap<Arc<str>, Instant>>,
    /// The lock that a claim of this process has recalled last, and from which other process.
    pub(crate) sent: watch::Sender<Option<(Arc<str>, ProcessId)>>,
    /// Notified of every recall.
    pub(crate) arrived: Notify,
}

impl Recalls {
    pub(crate) fn came_early(&self, token: Token) {
        let mut early = self.early.lock();
        if early.contains(&token) {
            return;
        }
        early.truncate(MOST_EARLY - 1);
        early.push_front(token);
    }

    /// Returns `true` if the token was recalled before this process knew its hold.
    pub(crate) fn have(&self, token: Token) -> bool {
        self.early.lock().contains(&token)
    }

    /// Lets the lock not be kept again for that time.
    pub(crate) fn back_off(&self, name: &Arc<str>, time: Duration) {
        let (mut names, now) = (self.names.lock(), now());
        if names.len() >= MOST_NAMES {
            names.retain(|_, until| now < *until);
        }
        if names.len() < MOST_NAMES {
            names.insert(name.clone(), now + time);
        }
    }

    /// Returns `true` if the lock was recalled a short time ago.
    pub(crate) fn are_recent(&self, name: &str) -> bool {
        let mut names = self.names.lock();
        match names.get(name) {
            Some(until) if now() < *until => true,
            Some(_) => names.remove(name).is_none(),
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_early_recalls_are_remembered() {
        let recalls = Recalls::default();
        let tokens: Vec<_> = (0..=MOST_EARLY).map(|_| Token::random()).collect();
        tokens.iter().for_each(|token| recalls.came_early(*token));
        assert!(!recalls.have(tokens[0]));
        assert!(tokens[1..].iter().all(|token| recalls.have(*token)));
    }

    #[test]
    fn a_recalled_lock_is_not_kept_again_for_a_time() {
        let (recalls, row) = (Recalls::default(), "row".into());
        assert!(!recalls.are_recent("row"));
        recalls.back_off(&row, Duration::from_secs(60));
        assert!(recalls.are_recent("row"));
        recalls.back_off(&row, Duration::ZERO);
        assert!(!recalls.are_recent("row") && recalls.names.lock().is_empty());
        for n in 0..=MOST_NAMES {
            recalls.back_off(&n.to_string().into(), Duration::from_secs(60));
        }
        assert_eq!(recalls.names.lock().len(), MOST_NAMES);
    }
}
