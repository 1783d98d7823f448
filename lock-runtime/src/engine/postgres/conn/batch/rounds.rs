//! The rounds that are under way on one connection, in the order in which they were sent.

use crate::engine::postgres::conn::batch::pending_tokens::PendingToken;
use crate::engine::postgres::conn::batch::request::Request;
use crate::engine::postgres::conn::batch::round::Round;
use crate::engine::postgres::conn::batch::send::send;
use crate::engine::token::Token;
use crate::util::clock::Timestamp;
use crate::util::time::{Timeout, timeout_at};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::time::Instant;

/// A round under way. Dropping it leaves its requests without replies, which their callers notice.
pub(crate) struct Sent<'a> {
    pub(crate) round: Arc<Round<'a>>,
    /// When it was sent.
    pub(crate) at: Timestamp,
    tokens: Vec<PendingToken>,
    /// The messages to other processes, which a later round sends again unless this one ends in time.
    pub(crate) messages: Vec<String>,
    /// The number of requests.
    pub(crate) size: usize,
    run: Pin<Box<Timeout<Run<'a>>>>,
    /// Whether all replies came in time, once it has ended.
    in_time: Option<bool>,
}

type Run<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

impl<'a> Sent<'a> {
    pub(crate) fn new(
        round: Round<'a>,
        requests: Vec<Request>,
        messages: Vec<String>,
        at: Timestamp,
        deadline: Instant,
    ) -> Sent<'a> {
        let tokens = requests.iter().flat_map(Request::pending_tokens).collect();
        let size = requests.len();
        let round = Arc::new(round);
        let sent = round.clone();
        let run: Run<'a> = Box::pin(async move { send(&sent, requests).await });
        Sent {
            round,
            at,
            tokens,
            messages,
            size,
            run: Box::pin(timeout_at(deadline, run)),
            in_time: None,
        }
    }

    /// Records that the requests which are not `settled` may be carried out later.
    pub(crate) fn keep_pending(&self, settled: &[Token]) {
        let pending = self.tokens.iter().filter(|it| !settled.contains(&it.token));
        let (void_after, is_bound) = (self.round.void_after, self.round.is_own());
        self.round
            .pending
            .add(pending.copied(), void_after, is_bound);
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
    /// Sends all of them, delivers the replies, and waits until the first has ended or `new` has. Returns
    /// that round, and `true` if it has ended in time.
    pub(crate) async fn next(&mut self, new: impl Future<Output = ()>) -> Option<(Sent<'a>, bool)> {
        let mut new = pin!(new);
        let in_time = poll_fn(|context| {
            // In their order, since the first poll of one sends it. A later one may have replies before the
            // first ends.
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
