//! Waiting: an entry in the queues of all members, and an election when the lock may be free.

use crate::engine::error::EngineError;
use crate::engine::redis::quorum::QuorumEngine;
use crate::engine::redis::quorum::ballot::Ballot;
use crate::engine::redis::quorum::election::{Outcome, count_votes};
use crate::engine::redis::quorum::members::Members;
use crate::engine::redis::quorum::queue_entry::QueueEntry;
use crate::engine::redis::quorum::votes::{Verdict, Votes};
use crate::engine::redis::vote::{QueueObservation, Vote};
use crate::engine::request::{Claim, EnqueueReply, QueueStatus, ServerTime};
use crate::engine::token::Token;
use crate::error::Holder;
use crate::util::backoff::fraction;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Approximately how long a claim waits before it polls again if it finds the votes split.
const SPLIT_RETRY_DELAY: Duration = Duration::from_millis(10);

impl QuorumEngine {
    /// Enters the queues of all members, and acquires the lock if it is free. A late request of an election
    /// finds that the election is over, so it needs no end.
    pub(crate) async fn enqueue(
        &self,
        waiter: &Claim,
        _: Option<ServerTime>,
        deadline: Instant,
    ) -> Result<EnqueueReply, EngineError> {
        let (members, ballots, entries) = (&self.members, &self.ballots, &self.queue_entries);
        let entry = || entries.get_or_insert(waiter.token, || QueueEntry::new(members, waiter));
        if !members.hints.begin_poll(waiter.token)
            && let Some(standing) = observe_all(members, &entry(), deadline).await?
        {
            return Ok(standing);
        }
        // A new token, so that votes left over from an earlier election never count in this one.
        let token = waiter.token.again();
        let claim = Claim {
            token,
            ..waiter.clone()
        };
        let ballot = Ballot::open(members, ballots, claim, Some(entry()));
        match ballot.run_election(deadline).await {
            Outcome::Won(election) => {
                election.keep();
                drop(QueueEntry::remove(members, entries, waiter.token));
                Ok(EnqueueReply::GrantedAs(token, waiter.ttl))
            }
            Outcome::Lost(ttl) => Ok(EnqueueReply::Queued(retry_in(ttl))),
            Outcome::Split(pause, _) => Ok(EnqueueReply::Queued(retry_in(pause))),
            Outcome::NoQuorum(error) => Err(error),
        }
    }
}

/// Observes the lock at all members; returns `None` if it may be free.
async fn observe_all(
    members: &Arc<Members>,
    entry: &Arc<QueueEntry>,
    deadline: Instant,
) -> Result<Option<EnqueueReply>, EngineError> {
    let request_deadline = deadline.min(members.request_deadline(entry.claim.ttl));
    let mut observations = members.ask_all(|member| {
        let entry = entry.clone();
        async move { entry.observe(member, request_deadline).await }
    });
    let mut votes = Votes::new(members.count(), entry.claim.token);
    let (mut ahead, mut others) = (Vec::new(), false);
    let read = |observed: Result<QueueObservation, EngineError>| match observed {
        Ok(observed) => {
            ahead.push(observed.ahead);
            others |= observed.others;
            match observed.holder {
                Some((holder, ttl)) => Vote::Held { holder, ttl },
                None => Vote::Granted,
            }
        }
        Err(error) => Vote::Failed(error),
    };
    let io = members.io;
    let verdict = count_votes(io, &mut votes, &mut observations, read, || {}, deadline);
    let ttl = match verdict.await {
        Verdict::Won => return Ok(None),
        Verdict::Lost => votes.earliest_free(),
        Verdict::Split { .. } => SPLIT_RETRY_DELAY + fraction(SPLIT_RETRY_DELAY),
        Verdict::Undecided | Verdict::NoQuorum => return Err(votes.error(&members.list)),
    };
    ahead.sort_unstable();
    let sole = votes.holder();
    Ok(Some(EnqueueReply::Queued(QueueStatus {
        position: ahead.get(ahead.len() / 2).copied().unwrap_or_default(),
        has_others: others,
        holder: sole.map(Token::holder).unwrap_or_default(),
        sole,
        is_recalled: true,
        ..retry_in(ttl)
    })))
}

/// Returns a status that makes the waiter poll again after that time.
fn retry_in(ttl: Duration) -> QueueStatus {
    QueueStatus {
        server_time: ServerTime(Duration::ZERO),
        holder_ttl: ttl,
        position: 0,
        has_others: true,
        holder: Holder::default(),
        sole: None,
        is_recalled: false,
        poll_in: None,
    }
}
