//! The requests that wait to be sent.
//!
//! A round takes both releases and other requests only if they are few, since the server does less for each
//! lock of a statement that is about more of them. Of many, it takes one kind: the one of which more wait,
//! unless the other has waited for several rounds.

use crate::engine::error::EngineError;
use crate::engine::postgres::conn::batch::request::Request;
use crate::util::sync::Mutex;
use std::collections::VecDeque;
use tokio::sync::Notify;

/// From this number of waiting requests on, a round takes one kind.
const MANY: usize = 8;
/// After this number of rounds, a kind is taken even if more requests of the other wait.
const PATIENCE: u64 = 4;

#[derive(Default)]
pub(crate) struct RequestQueue {
    waiting: Mutex<Waiting>,
    /// There is a round to send, the connection has ended, or the queue is closed: for the one task that
    /// sends the rounds.
    pub(crate) changed: Notify,
}

#[derive(Default)]
struct Waiting {
    /// Each with the number of the round that was the next when it came.
    releases: VecDeque<(u64, Request)>,
    others: VecDeque<(u64, Request)>,
    /// The number of the next round.
    round: u64,
    /// The least number of requests for which the next round begins.
    least: usize,
    /// Why there is no connection, after an attempt to make one.
    down: Option<EngineError>,
    closed: bool,
}

/// The requests that a round takes.
#[derive(Clone, Copy)]
enum Selection {
    Releases,
    Others,
    All,
}

impl Waiting {
    fn len(&self) -> usize {
        self.releases.len() + self.others.len()
    }

    fn push(&mut self, request: Request) {
        let list = match request {
            Request::Release(_) => &mut self.releases,
            _ => &mut self.others,
        };
        list.push_back((self.round, request));
    }

    fn pop(&mut self, selection: Selection) -> Option<Request> {
        let first = match selection {
            Selection::Releases => self.releases.pop_front(),
            Selection::Others => self.others.pop_front(),
            Selection::All => self
                .releases
                .pop_front()
                .or_else(|| self.others.pop_front()),
        };
        first.map(|(_, request)| request)
    }

    /// Returns the requests that the next round takes.
    fn selection(&self) -> Selection {
        if self.len() < MANY {
            return Selection::All;
        }
        let first = |list: &VecDeque<(u64, _)>| list.front().map_or(u64::MAX, |(since, _)| *since);
        let (released, other) = (first(&self.releases), first(&self.others));
        let waits_long = self.round.saturating_sub(released.min(other)) >= PATIENCE;
        let takes_releases = match waits_long {
            true => released <= other,
            false => self.releases.len() > self.others.len(),
        };
        match takes_releases {
            true => Selection::Releases,
            false => Selection::Others,
        }
    }

    /// Returns `true` if the next round has its least number of requests.
    fn is_due(&self) -> bool {
        let size = match self.selection() {
            Selection::Releases => self.releases.len(),
            Selection::Others => self.others.len(),
            Selection::All => self.len(),
        };
        size >= self.least
    }
}

impl RequestQueue {
    /// Adds a request, or fails it if there is no connection.
    pub(crate) fn push(&self, request: Request) {
        let mut waiting = self.waiting.lock();
        if let Some(error) = waiting.down.clone() {
            drop(waiting);
            request.fail(error);
            return;
        }
        waiting.push(request);
        let is_due = waiting.is_due();
        drop(waiting);
        if is_due {
            self.changed.notify_one();
        }
    }

    /// Takes the requests of a round, for up to `most` locks, or a few more.
    pub(crate) fn take(&self, most: usize) -> Vec<Request> {
        let (mut taken, mut unwanted, mut size) = (Vec::new(), Vec::new(), 0);
        let mut waiting = self.waiting.lock();
        // The callers of all the requests of a round may have left.
        while taken.is_empty() && waiting.len() > 0 {
            let selection = waiting.selection();
            while size < most
                && let Some(request) = waiting.pop(selection)
            {
                match request.is_wanted() {
                    true => {
                        size += request.size();
                        taken.push(request);
                    }
                    false => unwanted.push(request),
                }
            }
        }
        waiting.round += 1;
        drop(waiting);
        taken
    }

    /// Returns `true` if there are that many requests for the next round. If not, `changed` reports when
    /// there are.
    pub(crate) fn is_due(&self, least: usize) -> bool {
        let mut waiting = self.waiting.lock();
        waiting.least = least;
        waiting.is_due()
    }

    /// Fails all requests, and those to come until there is a connection.
    pub(crate) fn set_down(&self, error: &EngineError) {
        let mut waiting = self.waiting.lock();
        waiting.down = Some(error.clone());
        let releases = std::mem::take(&mut waiting.releases);
        let others = std::mem::take(&mut waiting.others);
        drop(waiting);
        for (_, request) in releases.into_iter().chain(others) {
            request.fail(error.clone());
        }
    }

    pub(crate) fn set_up(&self) {
        self.waiting.lock().down = None;
    }

    /// Ends the task that sends the requests, once all have their replies.
    pub(crate) fn close(&self) {
        self.waiting.lock().closed = true;
        self.changed.notify_one();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.waiting.lock().closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::postgres::conn::batch::recipient::ReleaseRecipient;
    use crate::engine::postgres::conn::batch::request::{Release, Renew};
    use crate::engine::token::Token;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};
    use tokio::sync::oneshot;

    /// Returns where the callers of the releases await the replies.
    fn push(
        queue: &RequestQueue,
        releases: usize,
        others: usize,
    ) -> Vec<oneshot::Receiver<Result<bool, EngineError>>> {
        for _ in 0..others {
            queue.push(Request::Notify(Vec::new()));
        }
        let release = |_| {
            let (reply, caller) = oneshot::channel();
            queue.push(Request::Release(Release {
                name: "row".into(),
                token: Token::random(),
                leaves: false,
                recipient: ReleaseRecipient::Caller(reply),
            }));
            caller
        };
        (0..releases).map(release).collect()
    }

    /// Returns how many releases were taken, and how many others.
    fn take(queue: &RequestQueue, most: usize) -> (usize, usize) {
        let taken = queue.take(most);
        let is_release = |request: &&Request| matches!(request, Request::Release(_));
        let releases = taken.iter().filter(is_release).count();
        (releases, taken.len() - releases)
    }

    #[test]
    fn a_round_takes_the_kind_of_which_more_wait() {
        let queue = RequestQueue::default();
        let _callers = push(&queue, 20, 7);
        assert!(queue.is_due(20) && !queue.is_due(21));
        assert_eq!(take(&queue, 10), (10, 0));
        let _callers = push(&queue, 0, 4);
        assert_eq!(take(&queue, 20), (0, 11));
        assert_eq!(take(&queue, 20), (10, 0));
        assert_eq!(take(&queue, 20), (0, 0));
    }

    #[test]
    fn requests_whose_callers_have_left_keep_no_others_back() {
        let queue = RequestQueue::default();
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
        let _callers = push(&queue, 1, 0);
        assert_eq!(take(&queue, 10), (1, 0));
    }

    #[test]
    fn the_other_kind_waits_for_some_rounds_only() {
        let queue = RequestQueue::default();
        let _callers = push(&queue, 1, 100);
        let rounds: Vec<_> = (0..PATIENCE + 2).map(|_| take(&queue, 10)).collect();
        let (others, releases) = ((0, 10), (1, 0));
        assert_eq!(rounds, [others, others, others, others, releases, others]);
    }

    #[test]
    fn the_sender_wakes_once_the_round_has_its_least_number() {
        let queue = RequestQueue::default();
        let wakes = || {
            let changed = pin!(queue.changed.notified());
            let mut context = Context::from_waker(Waker::noop());
            changed.poll(&mut context).is_ready()
        };
        let _callers = push(&queue, 1, 0);
        assert!(wakes());
        assert!(!queue.is_due(3));
        let _callers = push(&queue, 0, 1);
        assert!(!wakes());
        let _callers = push(&queue, 1, 0);
        assert!(wakes() && queue.is_due(3));
    }

    #[test]
    fn few_requests_are_taken_together() {
        let queue = RequestQueue::default();
        let _callers = push(&queue, 3, MANY - 4);
        assert_eq!(take(&queue, 10), (3, MANY - 4));
    }
}
