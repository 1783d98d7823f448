//! Elections: how a claim gets a majority.
//!
//! All members are asked for their votes at once. If several claims split the members so that none has a
//! majority, each claim sees from the replies which one leads: the leader requests the missing votes again,
//! and the others withdraw. Most elections take one round, and split ones rarely more than two.

use crate::engine::error::EngineError;
use crate::engine::redis::quorum::ballot::Ballot;
use crate::engine::redis::quorum::votes::{CountPhase, Verdict, Votes};
use crate::engine::redis::vote::Vote;
use crate::util::backoff::fraction;
use crate::util::io_thread::IoThread;
use crate::util::time::{deadline_in, elapsed_since, now};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::Instant;

/// The number of rounds after which even the leader gives up: another claim may belong to a process that has
/// died.
const MAX_ROUNDS: u32 = 4;

/// A member that replies this much later than the majority is not waited for, unless its vote is needed.
const STRAGGLER_GRACE: Duration = Duration::from_millis(10);

/// The outcome of an election.
pub(crate) enum Outcome {
    Won(ElectionGuard),
    /// Another claim holds the lock, at least for this long.
    Lost(Duration),
    /// Several claims split the votes. The leading one has acquired the lock after this long, if it can.
    Split(Duration, EngineError),
    /// Too few members replied.
    NoQuorum(EngineError),
}

/// A guard that withdraws the ballot when it is dropped, unless the election was won and the lock acquired.
pub(crate) struct ElectionGuard(Option<Arc<Ballot>>);

impl ElectionGuard {
    pub(crate) fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for ElectionGuard {
    fn drop(&mut self) {
        if let Some(ballot) = &self.0 {
            ballot.withdraw(false);
        }
    }
}

impl Ballot {
    /// Runs rounds until there is an outcome. Must run on the I/O thread.
    pub(crate) async fn run_election(self: Arc<Self>, deadline: Instant) -> Outcome {
        let guard = ElectionGuard(Some(self.clone()));
        let io = self.members.io;
        let mut votes = Votes::new(self.members.count(), self.claim.token);
        let (sender, mut cast) = unbounded_channel();
        let mut asked = (0..self.members.count()).collect();
        let mut round = 1;
        loop {
            let start = now();
            self.request_votes(asked, deadline, &sender);
            let give_up = || {
                self.withdraw(false);
            };
            match count_votes(io, &mut votes, &mut cast, |vote| vote, give_up, deadline).await {
                Verdict::Won => {
                    cast.close();
                    while let Ok((member, vote)) = cast.try_recv() {
                        votes.record(member, vote);
                    }
                    for member in votes.held_by_others() {
                        io.spawn(self.clone().retry_straggler(member));
                    }
                    return Outcome::Won(guard);
                }
                Verdict::Lost => return Outcome::Lost(votes.earliest_free()),
                Verdict::Split { we_lead: true } if round < MAX_ROUNDS => {
                    // The other claims need time to see that this one leads, and to withdraw.
                    let pause = self.round_time(start) / 2;
                    let next = deadline_in(pause + fraction(pause));
                    io.sleep_until(next.min(deadline)).await;
                }
                Verdict::Split { .. } => {
                    let round = self.round_time(start);
                    let pause = 2 * round + fraction(round);
                    return Outcome::Split(pause, votes.error(&self.members.list));
                }
                _ => return Outcome::NoQuorum(votes.error(&self.members.list)),
            }
            round += 1;
            asked = votes.take_retryable();
        }
    }

    /// Returns how long a round took. It may have taken longer only because this process was stopped.
    pub(crate) fn round_time(&self, start: Instant) -> Duration {
        elapsed_since(start).min(self.members.request_timeout(self.claim.ttl))
    }

    /// Requests the vote of a member that had not released the lock for an earlier holder yet. The lock is
    /// held without that member; with it, the lock survives the loss of more members.
    async fn retry_straggler(self: Arc<Self>, member: usize) {
        self.members
            .io
            .sleep_until(deadline_in(STRAGGLER_GRACE))
            .await;
        self.request_vote(member, deadline_in(self.claim.ttl)).await;
    }

    fn request_votes(
        self: &Arc<Self>,
        members: Vec<usize>,
        deadline: Instant,
        sender: &UnboundedSender<(usize, Vote)>,
    ) {
        for member in members {
            let (ballot, sender) = (self.clone(), sender.clone());
            self.members.io.spawn(async move {
                let vote = ballot.request_vote(member, deadline).await;
                let held = matches!(vote, Vote::Held { .. });
                if sender.send((member, vote)).is_err() && held {
                    ballot.retry_straggler(member).await;
                }
            });
        }
    }
}

/// Counts votes until there is a verdict. A claim that does not lead calls `give_up` at once while votes are
/// missing; those may still show that it has lost.
pub(crate) async fn count_votes<T>(
    io: IoThread,
    votes: &mut Votes,
    cast: &mut UnboundedReceiver<(usize, T)>,
    mut read: impl FnMut(T) -> Vote,
    give_up: impl FnOnce(),
    deadline: Instant,
) -> Verdict {
    let start = now();
    // Members that do not reply are recorded as failed by then.
    let deadline = deadline + STRAGGLER_GRACE;
    let mut give_up = Some(give_up);
    let mut phase = CountPhase::Collecting;
    let mut late = None;
    let mut timer = pin!(io.sleep_until(deadline));
    loop {
        let complete = votes.outstanding() == 0 || phase == CountPhase::Closed;
        match votes.verdict(phase) {
            Verdict::Lost => return Verdict::Lost,
            Verdict::Undecided => {}
            Verdict::Split { we_lead: false } if !complete => {
                if let Some(give_up) = give_up.take() {
                    give_up();
                }
            }
            verdict if give_up.is_some() => return verdict,
            _ if complete => {
                return Verdict::Split { we_lead: false };
            }
            _ => {}
        }
        if late.is_none() && votes.replied() >= votes.majority() {
            let soon = now() + STRAGGLER_GRACE.max(2 * elapsed_since(start));
            timer.as_mut().reset(soon.min(deadline));
            late = Some(soon);
        }
        let vote = poll_fn(|context| match cast.poll_recv(context) {
            Poll::Pending => timer.as_mut().poll(context).map(|()| None),
            vote => vote,
        });
        match vote.await {
            Some((member, vote)) => votes.record(member, read(vote)),
            None if phase == CountPhase::Collecting && late.is_some_and(|late| late < deadline) => {
                phase = CountPhase::Stragglers;
                timer.as_mut().reset(deadline);
            }
            None => phase = CountPhase::Closed,
        }
    }
}
