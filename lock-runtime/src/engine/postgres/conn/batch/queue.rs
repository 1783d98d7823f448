//! The requests that wait to be sent.

use crate::engine::error::EngineError;
use crate::engine::postgres::conn::batch::request::Request;
use crate::util::sync::{Mutex, MutexGuard};
use std::collections::VecDeque;
use tokio::sync::Notify;

/// From this number of requests on, a round is of releases, or of others: of those which are more.
const MANY: usize = 8;
/// … unless some of the fewer have waited for that many rounds.
const PATIENCE: u64 = 4;

#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    /// There is a round to send, the connection has ended, or the queue is closed: for the one task that sends the rounds.
    pub(crate) changed: Notify,
}

#[derive(Default)]
struct State {
    /// Each with the number of the round that was the next when it came.
    releases: VecDeque<(u64, Request)>,
    others: VecDeque<(u64, Request)>,
    /// The number of the next round.
    round: u64,
    /// How many requests the next round has at least.
    least: usize,
    /// Why there is no connection, after an attempt to make one.
    down: Option<EngineError>,
    closed: bool,
}

/// The requests that a round is of.
#[derive(Clone, Copy)]
enum Kind {
    Releases,
    Others,
    All,
}

impl State {
    fn len(&self) -> usize {
        self.releases.len() + self.others.len()
    }

    fn pop(&mut self, kind: Kind) -> Option<Request> {
        let first = match kind {
            Kind::Releases => self.releases.pop_front(),
            Kind::Others => self.others.pop_front(),
            Kind::All => self
                .releases
                .pop_front()
                .or_else(|| self.others.pop_front()),
        };
        first.map(|(_, request)| request)
    }

    /// Returns what the next round is of: of all requests only if they are few, since the server does less for each lock
    /// of a statement that is about more of them.
    fn next(&self) -> Kind {
        if self.len() < MANY {
            return Kind::All;
        }
        let first = |list: &VecDeque<(u64, _)>| list.front().map_or(u64::MAX, |(since, _)| *since);
        let (released, other) = (first(&self.releases), first(&self.others));
        let waits_long = self.round.saturating_sub(released.min(other)) >= PATIENCE;
        let is_of_releases = match waits_long {
            true => released <= other,
            false => self.releases.len() > self.others.len(),
        };
        match is_of_releases {
            true => Kind::Releases,
            false => Kind::Others,
        }
    }

    /// Returns whether the next round has its least number of requests.
    fn is_due(&self) -> bool {
        let size = match self.next() {
            Kind::Releases => self.releases.len(),
            Kind::Others => self.others.len(),
            Kind::All => self.len(),
        };
        size >= self.least
    }
}

impl Queue {
    /// Adds a request, or fails it if there is no connection.
    pub(crate) fn push(&self, request: Request) {
        let mut state = self.state();
        let Some(error) = state.down.clone() else {
            let since = state.round;
            let list = match request {
                Request::Release(_) => &mut state.releases,
                _ => &mut state.others,
            };
            list.push_back((since, request));
            let is_due = state.is_due();
            drop(state);
            if is_due {
                self.changed.notify_one();
            }
            return;
        };
        drop(state);
        request.fail(error);
    }

    /// Takes the requests of a round, for up to `most` locks, or a few more.
    pub(crate) fn take(&self, most: usize) -> Vec<Request> {
        let (mut taken, mut left, mut size) = (Vec::new(), Vec::new(), 0);
        let mut state = self.state();
        // The callers of all the requests of a round may have left.
        while taken.is_empty() && state.len() > 0 {
            let next = state.next();
            while size < most
                && let Some(request) = state.pop(next)
            {
                match request.is_wanted() {
                    true => {
                        size += request.size();
                        taken.push(request);
                    }
                    false => left.push(request),
                }
            }
        }
        state.round += 1;
        drop(state);
        taken
    }

    /// Returns whether there are that many requests for the next round. If not, `changed` says when there are.
    pub(crate) fn is_due(&self, least: usize) -> bool {
        let mut state = self.state();
        state.least = least;
        state.is_due()
    }

    /// Fails all requests, and those to come until there is a connection.
    pub(crate) fn set_down(&self, error: &EngineError) {
        let mut state = self.state();
        state.down = Some(error.clone());
        let releases = std::mem::take(&mut state.releases);
        let others = std::mem::take(&mut state.others);
        drop(state);
        for (_, request) in releases.into_iter().chain(others) {
            request.fail(error.clone());
        }
    }

    pub(crate) fn set_up(&self) {
        self.state().down = None;
    }

    /// Lets the task end that sends the requests.
    pub(crate) fn close(&self) {
        self.state().closed = true;
        self.changed.notify_one();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state().closed
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::postgres::conn::batch::request::{Release, ReleaseReply, Renew};
    use crate::engine::token::Token;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};
    use tokio::sync::oneshot;

    fn push(queue: &Queue, releases: usize, others: usize) {
        for _ in 0..releases {
            queue.push(Request::Release(Release {
                name: "row".into(),
                token: Token::random(),
                leaves: false,
                reply: ReleaseReply::Repeat,
            }));
        }
        for _ in 0..others {
            queue.push(Request::Tell(Vec::new()));
        }
    }

    /// Returns how many releases were taken, and how many others.
    fn take(queue: &Queue, most: usize) -> (usize, usize) {
        let taken = queue.take(most);
        let is_release = |request: &&Request| matches!(request, Request::Release(_));
        let releases = taken.iter().filter(is_release).count();
        (releases, taken.len() - releases)
    }

    #[test]
    fn a_round_is_of_those_which_are_more() {
        let queue = Queue::default();
        push(&queue, 20, 7);
        assert!(queue.is_due(20) && !queue.is_due(21));
        assert_eq!(take(&queue, 10), (10, 0));
        push(&queue, 0, 4);
        assert_eq!(take(&queue, 20), (0, 11));
        assert_eq!(take(&queue, 20), (10, 0));
        assert_eq!(take(&queue, 20), (0, 0));
    }

    #[test]
    fn requests_whose_callers_have_left_keep_no_others_back() {
        let queue = Queue::default();
        for _ in 0..20 {
            let (reply, _) = oneshot::channel();
            queue.push(Request::Renew(Renew {
                names: Vec::new(),
                tokens: Vec::new(),
                ttls: Vec::new(),
                replicas: 0,
                reply,
            }));
        }
        push(&queue, 1, 0);
        assert_eq!(take(&queue, 10), (1, 0));
    }

    #[test]
    fn the_fewer_wait_for_some_rounds_only() {
        let queue = Queue::default();
        push(&queue, 1, 100);
        let rounds: Vec<_> = (0..PATIENCE + 2).map(|_| take(&queue, 10)).collect();
        let (others, releases) = ((0, 10), (1, 0));
        assert_eq!(rounds, [others, others, others, others, releases, others]);
    }

    #[test]
    fn the_sender_wakes_once_the_round_has_its_least_number() {
        let queue = Queue::default();
        let wakes = || {
            let changed = pin!(queue.changed.notified());
            let mut context = Context::from_waker(Waker::noop());
            changed.poll(&mut context).is_ready()
        };
        push(&queue, 1, 0);
        assert!(wakes());
        assert!(!queue.is_due(3));
        push(&queue, 0, 1);
        assert!(!wakes());
        push(&queue, 1, 0);
        assert!(wakes() && queue.is_due(3));
    }

    #[test]
    fn few_requests_are_taken_together() {
        let queue = Queue::default();
        push(&queue, 3, MANY - 4);
        assert_eq!(take(&queue, 10), (3, MANY - 4));
    }
}
