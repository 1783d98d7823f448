//! The rounds that are under way on one connection, in the order in which they were sent.

use crate::engine::postgres::conn::batch::pending_tokens::Gain;
use crate::engine::postgres::conn::batch::recent_releases::Released;
use crate::engine::postgres::conn::batch::request::Request;
use crate::engine::postgres::conn::batch::statements::Round;
use crate::engine::token::Token;
use crate::util::clock::Timestamp;
use crate::util::time::{Timeout, timeout_at};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::time::Instant;

/// What a later round sends again, if this one is not answered in time.
#[derive(Default)]
pub(crate) struct Carried {
    pub(crate) repeats: Vec<Released>,
    pub(crate) told: Vec<String>,
}

/// A round under way. Dropping it leaves its requests unanswered, and their callers hear that.
pub(crate) struct Sent<'a> {
    pub(crate) round: Arc<Round<'a>>,
    /// When it was sent.
    pub(crate) at: Timestamp,
    gains: Vec<Gain>,
    pub(crate) carried: Carried,
    /// The number of requests.
    pub(crate) size: usize,
    run: Pin<Box<Timeout<Run<'a>>>>,
    /// Whether it was answered in time, once it has ended.
    in_time: Option<bool>,
}

type Run<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

impl<'a> Sent<'a> {
    pub(crate) fn new(
        round: Round<'a>,
        requests: Vec<Request>,
        carried: Carried,
        at: Timestamp,
        deadline: Instant,
    ) -> Sent<'a> {
        let gains = requests.iter().flat_map(Request::gains).collect();
        let size = requests.len();
        let round = Arc::new(round);
        let sent = round.clone();
        let run: Run<'a> = Box::pin(async move { sent.run(requests).await });
        Sent {
            round,
            at,
            gains,
            carried,
            size,
            run: Box::pin(timeout_at(deadline, run)),
            in_time: None,
        }
    }

    /// Records that the requests without a reply may be carried out later.
    pub(crate) fn unanswered(&self, answered: &[Token]) {
        let late = self.gains.iter().filter(|it| !answered.contains(&it.token));
        let (void_after, is_bound) = (self.round.void_after, self.round.is_own());
        let unanswered = self.round.unanswered;
        unanswered.add(late.copied(), void_after, is_bound);
    }

    fn poll(&mut self, context: &mut Context<'_>) {
        if self.in_time.is_none()
            && let Poll::Ready(run) = self.run.as_mut().poll(context)
        {
            self.in_time = Some(run.is_ok());
        }
    }
}

#[derive(Default)]
pub(crate) struct Rounds<'a>(pub(crate) VecDeque<Sent<'a>>);

impl<'a> Rounds<'a> {
    /// Sends all of them, delivers the replies, and waits until the first has ended or `new` has. Returns that round, and
    /// whether it was answered in time.
    pub(crate) async fn next(&mut self, new: impl Future<Output = ()>) -> Option<(Sent<'a>, bool)> {
        let mut new = pin!(new);
        let in_time = poll_fn(|context| {
            // In their order, since the first poll of one sends it. A later one may have replies before the first ends.
            self.0.iter_mut().for_each(|sent| sent.poll(context));
            match self.0.front().and_then(|first| first.in_time) {
                Some(in_time) => Poll::Ready(Some(in_time)),
                None => new.as_mut().poll(context).map(|()| None),
            }
        });
        let in_time = in_time.await?;
        self.0.pop_front().map(|sent| (sent, in_time))
    }
}
