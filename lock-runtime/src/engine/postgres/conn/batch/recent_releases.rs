//! The releases that a crash of the server may undo: the replies came before the server had flushed them.

use crate::engine::token::Token;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::Instant;

/// Longer than a server takes to flush, and a client to notice that it is gone: the former is three times its
/// `wal_writer_delay`, which is 0.2 s unless it was changed.
const FLUSHED_AFTER: Duration = Duration::from_secs(2);
/// More are not repeated.
const MAX: usize = 10_000;

/// The name and the token of a lock that was released.
pub(crate) type Released = (String, Token);

#[derive(Default)]
pub(crate) struct RecentReleases {
    recent: VecDeque<(Instant, Released)>,
    /// The releases that are to be repeated.
    repeats: VecDeque<Released>,
}

impl RecentReleases {
    pub(crate) fn add(&mut self, now: Instant, released: Vec<Released>) {
        let released = released.into_iter().map(|released| (now, released));
        self.recent.extend(released);
        let is_flushed = |(at, _): &(Instant, Released)| *at + FLUSHED_AFTER < now;
        while self.recent.len() > MAX || self.recent.front().is_some_and(is_flushed) {
            self.recent.pop_front();
        }
    }

    /// Repeats the releases of the last seconds. Called when the connection broke, and with it perhaps the server.
    pub(crate) fn repeat_all(&mut self, now: Instant) {
        self.add(now, Vec::new());
        let recent = self.recent.drain(..);
        self.repeats.extend(recent.map(|(_, released)| released));
    }

    /// Takes up to `most` releases that are to be repeated.
    pub(crate) fn take_repeats(&mut self, most: usize) -> Vec<Released> {
        let most = most.min(self.repeats.len());
        self.repeats.drain(..most).collect()
    }

    /// Puts back the releases that were taken. Called when the connection broke again before their replies came.
    pub(crate) fn put_back(&mut self, repeats: Vec<Released>) {
        for repeat in repeats.into_iter().rev() {
            self.repeats.push_front(repeat);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_that_may_not_be_flushed_are_repeated_until_replies_come() {
        let name = |n: u8| n.to_string();
        let releases: Vec<Released> = (0..4).map(|n| (name(n), Token::random())).collect();
        let (early, late) = (Instant::now(), Instant::now() + FLUSHED_AFTER * 2);
        let mut recent = RecentReleases::default();
        recent.add(early, releases[..1].to_vec());
        recent.add(late, releases[1..].to_vec());
        assert!(recent.take_repeats(9).is_empty());
        recent.repeat_all(late);
        let first = recent.take_repeats(2);
        assert_eq!(first, releases[1..3]);
        recent.repeat_all(late);
        recent.put_back(first);
        assert_eq!(recent.take_repeats(9), releases[1..]);
        recent.repeat_all(late);
        assert!(recent.take_repeats(9).is_empty());
    }
}
