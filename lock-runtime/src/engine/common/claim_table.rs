//! The claims of a process, each from before its first request until it is known to have left the line, and
//! the times at which those end that nothing renews.

use crate::engine::lease::Lease;
use crate::engine::token::Token;
use crate::util::clock::{Clock, Timestamp};
use crate::util::sync::{Mutex, MutexGuard};
use crate::util::time::{deadline_in, timeout_at};
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// How often the task that ends claims looks whether the engine is still there.
const LOOK: Duration = Duration::from_secs(30);

/// What is known of each claim, by its token.
pub(crate) struct ClaimTable<R> {
    clock: Clock,
    state: Mutex<State<R>>,
    /// A claim may expire sooner than any before it.
    sooner: Notify,
}

struct State<R> {
    rows: HashMap<Token, Row<R>>,
    /// When the next claim expires, as far as the task that ends them knows.
    next_expiry: Option<Instant>,
}

struct Row<R> {
    record: R,
    /// The claim expires at its end.
    lease: Option<Lease>,
}

impl<R: Clone> ClaimTable<R> {
    pub(crate) fn new(clock: Clock) -> ClaimTable<R> {
        let (rows, next_expiry) = (HashMap::new(), None);
        ClaimTable {
            clock,
            state: Mutex::new(State { rows, next_expiry }),
            sooner: Notify::new(),
        }
    }

    pub(crate) fn get(&self, token: Token) -> Option<R> {
        let state = self.state();
        state.rows.get(&token).map(|row| row.record.clone())
    }

    /// Returns what is known of the claim. If that is nothing, or is refused, the claim begins anew.
    pub(crate) fn get_or_insert(
        &self,
        token: Token,
        accepts: impl FnOnce(&R) -> bool,
        new: impl FnOnce() -> R,
    ) -> R {
        let mut state = self.state();
        if let Some(row) = state.rows.get(&token).filter(|row| accepts(&row.record)) {
            return row.record.clone();
        }
        let (record, lease) = (new(), None);
        let row = Row {
            record: record.clone(),
            lease,
        };
        let replaced = state.rows.insert(token, row);
        drop(state);
        drop(replaced);
        record
    }

    /// Changes what is known of the claim. Returns `None` if that is nothing.
    #[cfg(feature = "etcd")]
    pub(crate) fn change<T>(&self, token: Token, change: impl FnOnce(&mut R) -> T) -> Option<T> {
        let mut state = self.state();
        state
            .rows
            .get_mut(&token)
            .map(|row| change(&mut row.record))
    }

    /// Gives the claim another token.
    #[cfg(feature = "zookeeper")]
    pub(crate) fn rename(&self, from: Token, to: Token) {
        let mut state = self.state();
        if let Some(row) = state.rows.remove(&from) {
            state.rows.insert(to, row);
        }
    }

    /// Forgets the claim if what is known of it is accepted.
    pub(crate) fn remove_if(&self, token: Token, accepts: impl FnOnce(&R) -> bool) -> Option<R> {
        let mut state = self.state();
        let row = state.rows.get(&token)?;
        let removed = accepts(&row.record).then(|| state.rows.remove(&token));
        removed.flatten().map(|row| row.record)
    }

    #[cfg(feature = "etcd")]
    pub(crate) fn remove(&self, token: Token) -> Option<R> {
        self.remove_if(token, |_| true)
    }

    /// Returns `true` if a claim is accepted.
    #[cfg(feature = "zookeeper")]
    pub(crate) fn any(&self, accepts: impl Fn(&R) -> bool) -> bool {
        let state = self.state();
        state.rows.values().any(|row| accepts(&row.record))
    }

    /// Lets the claim expire after that time, unless this is called again before.
    #[cfg(feature = "zookeeper")]
    pub(crate) fn expire_in(&self, token: Token, time: Duration) {
        self.expire_since(token, self.clock.now(), time);
    }

    /// Lets the claim expire when that time has passed since then, unless this is called again before.
    pub(crate) fn expire_since(&self, token: Token, since: Timestamp, time: Duration) {
        let lease = Lease::exactly(since, time);
        let mut state = self.state();
        let Some(row) = state.rows.get_mut(&token) else {
            return;
        };
        row.lease = Some(lease);
        let expiry = deadline_in(lease.remaining(self.clock.now()));
        if state.next_expiry.is_none_or(|next| expiry < next) {
            state.next_expiry = Some(expiry);
            self.sooner.notify_one();
        }
    }

    /// Returns the claims that have expired, each once, and when the next one does.
    fn take_expired(&self) -> (Vec<Token>, Option<Instant>) {
        let now = self.clock.now();
        let mut state = self.state();
        let (mut expired, mut next) = (Vec::new(), None::<Duration>);
        for (token, row) in &mut state.rows {
            let Some(lease) = row.lease else { continue };
            let left = lease.remaining(now);
            if left.is_zero() {
                row.lease = None;
                expired.push(*token);
            } else {
                next = Some(next.map_or(left, |next| next.min(left)));
            }
        }
        state.next_expiry = next.map(deadline_in);
        (expired, state.next_expiry)
    }

    fn state(&self) -> MutexGuard<'_, State<R>> {
        self.state.lock()
    }
}

/// Ends the claims that have expired, until the engine is dropped.
pub(crate) async fn end_expired<R: Clone, E>(
    table: Arc<ClaimTable<R>>,
    engine: Weak<E>,
    end: impl Fn(&Arc<E>, Token),
) {
    loop {
        let Some(strong) = engine.upgrade() else {
            return;
        };
        let (expired, next) = table.take_expired();
        expired.into_iter().for_each(|token| end(&strong, token));
        drop(strong);
        let look = deadline_in(LOOK);
        let next = next.map_or(look, |next| next.min(look));
        let _ = timeout_at(next, table.sooner.notified()).await;
    }
}

#[cfg(all(test, feature = "zookeeper"))]
mod tests {
    use super::*;

    #[test]
    fn a_claim_expires_once_unless_it_is_renewed() {
        let clock = Clock::manual();
        let table = ClaimTable::<&str>::new(clock.clone());
        let seconds = Duration::from_secs;
        let expired_after = |time| {
            clock.advance(seconds(time), seconds(time));
            table.take_expired().0
        };
        let token = Token::random();
        table.expire_in(token, seconds(1));
        assert_eq!(expired_after(2), [], "it is unknown");
        table.get_or_insert(token, |_| true, || "claim");
        assert_eq!(expired_after(9), [], "it does not expire");
        table.expire_in(token, seconds(3));
        assert_eq!(expired_after(2), []);
        let since = clock.now();
        assert_eq!(expired_after(0), []);
        table.expire_since(token, since, seconds(3));
        assert_eq!(expired_after(2), [], "it was renewed");
        let to = Token::random();
        table.rename(token, to);
        assert_eq!(expired_after(1), [to]);
        assert_eq!(expired_after(9), [], "it is not reported again");
    }

    #[test]
    fn a_record_is_replaced_or_removed_if_it_is_not_the_same() {
        let table = ClaimTable::<u8>::new(Clock::manual());
        let token = Token::random();
        assert_eq!(table.get_or_insert(token, |_| true, || 1), 1);
        assert_eq!(table.get_or_insert(token, |_| true, || 2), 1);
        assert_eq!(table.get_or_insert(token, |_| false, || 3), 3);
        assert_eq!(table.remove_if(token, |record| *record == 1), None);
        assert!(table.any(|record| *record == 3));
        assert_eq!(table.remove_if(token, |_| true), Some(3));
        assert_eq!(table.get(token), None);
    }
}
