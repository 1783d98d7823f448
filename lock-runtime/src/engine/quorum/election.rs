//! How a claim gets a majority.
//!
//! All members are asked at once. Where several claims have come between the members so that none has
//! a majority, each sees from the answers which of them is first: that one asks on, and the others give
//! up what they have got. Most elections take one round, and those hardly more than two.

use crate::engine::error::EngineError;
use crate::engine::member::Vote;
use crate::engine::quorum::ballot::Ballot;
use crate::engine::quorum::votes::{Phase, Verdict, Votes};
use crate::util::backoff::fraction;
use crate::util::io_thread::Io;
use crate::util::time::{after, instant, since};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::Instant;

/// So often does the first of several ask before it gives up as well: one of the others may be somebody
/// who has died.
const ROUNDS: u32 = 4;

/// A member that takes so much longer than the majority is not waited for, where it isn't needed.
const LATE: Duration = Duration::from_millis(10);

/// How an election ended.
pub(crate) enum Outcome {
    Won(Election),
    /// The lock is somebody else's, and can't be free sooner than after so long.
    Lost(Duration),
    /// Several claims were in each other's way. Another one is first, and has it after so long if it can.
    Split(Duration, EngineError),
    /// Too few members have answered.
    Unknown(EngineError),
}

/// Unless it is won, and the lock is taken, it is cleared away on whatever path it ends.
pub(crate) struct Election(Option<Arc<Ballot>>);

impl Election {
    pub(crate) fn take(mut self) {
        self.0 = None;
    }
}

impl Drop for Election {
    fn drop(&mut self) {
        if let Some(ballot) = &self.0 {
            ballot.clear(false);
        }
    }
}

impl Ballot {
    /// Asks for the lock until there is an outcome. On the I/O thread.
    pub(crate) async fn run(self: Arc<Self>, until: Instant) -> Outcome {
        let election = Election(Some(self.clone()));
        let io = self.members.io;
        let mut votes = Votes::new(self.members.count(), self.claim.token);
        let (sender, mut cast) = unbounded_channel();
        let mut asked = (0..self.members.count()).collect();
        let mut round = 1;
        loop {
            let start = instant();
            self.ask_for_votes(asked, until, &sender);
            let give_up = || {
                self.clear(false);
            };
            match count(io, &mut votes, &mut cast, |vote| vote, give_up, until).await {
                Verdict::Won => {
                    cast.close();
                    while let Ok((member, vote)) = cast.try_recv() {
                        votes.cast(member, vote);
                    }
                    for member in votes.held() {
                        io.spawn(self.clone().ask_once_more(member));
                    }
                    return Outcome::Won(election);
                }
                Verdict::Lost => return Outcome::Lost(votes.free_in()),
                Verdict::Split {
                    ours_is_first: true,
                } if round < ROUNDS => {
                    // The others need no longer to see what we have seen, and to give up.
                    let pause = since(start) / 2;
                    io.sleep_until(instant() + pause + fraction(pause)).await;
                }
                Verdict::Split { .. } => {
                    let round = since(start);
                    let pause = 2 * round + fraction(round);
                    return Outcome::Split(pause, votes.error(&self.members.all));
                }
                _ => return Outcome::Unknown(votes.error(&self.members.all)),
            }
            round += 1;
            asked = votes.ask_again();
        }
    }

    /// Asks a member that had not let go of an earlier holder yet. The lock is had without it; with it, it
    /// survives more.
    async fn ask_once_more(self: Arc<Self>, member: usize) {
        self.members.io.sleep_until(after(LATE)).await;
        self.ask(member, after(self.claim.ttl)).await;
    }

    fn ask_for_votes(
        self: &Arc<Self>,
        members: Vec<usize>,
        until: Instant,
        sender: &UnboundedSender<(usize, Vote)>,
    ) {
        for member in members {
            let (ballot, sender) = (self.clone(), sender.clone());
            self.members.io.spawn(async move {
                let vote = ballot.ask(member, until).await;
                let held = matches!(vote, Vote::Held { .. });
                if sender.send((member, vote)).is_err() && held {
                    ballot.ask_once_more(member).await;
                }
            });
        }
    }
}

/// Counts what comes in until there is a verdict. A claim that comes after others, with some members
/// still missing, gives up at once what it has got; those may still tell whether it has lost.
pub(crate) async fn count<T>(
    io: Io,
    votes: &mut Votes,
    cast: &mut UnboundedReceiver<(usize, T)>,
    mut read: impl FnMut(T) -> Vote,
    give_up: impl FnOnce(),
    until: Instant,
) -> Verdict {
    let start = instant();
    // Those who don't answer say so by then.
    let until = until + LATE;
    let mut give_up = Some(give_up);
    let mut phase = Phase::Early;
    let mut late = None;
    let mut bell = pin!(io.sleep_until(until));
    loop {
        let complete = votes.missing() == 0 || phase == Phase::Over;
        match votes.verdict(phase) {
            Verdict::Lost => return Verdict::Lost,
            Verdict::Open => {}
            Verdict::Split {
                ours_is_first: false,
            } if !complete => {
                if let Some(give_up) = give_up.take() {
                    give_up();
                }
            }
            verdict if give_up.is_some() => return verdict,
            _ if complete => {
                return Verdict::Split {
                    ours_is_first: false,
                };
            }
            _ => {}
        }
        if late.is_none() && votes.answered() >= votes.majority() {
            let soon = instant() + LATE.max(2 * since(start));
            bell.as_mut().reset(soon.min(until));
            late = Some(soon);
        }
        let told = poll_fn(|context| match cast.poll_recv(context) {
            Poll::Pending => bell.as_mut().poll(context).map(|()| None),
            told => told,
        });
        match told.await {
            Some((member, told)) => votes.cast(member, read(told)),
            None if phase == Phase::Early && late.is_some_and(|late| late < until) => {
                phase = Phase::Late;
                bell.as_mut().reset(until);
            }
            None => phase = Phase::Over,
        }
    }
}
