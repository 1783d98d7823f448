//! Renewal: a lease is extended only if a majority has renewed it.
//!
//! A member that has lost the lock, for example by a restart, is asked to store it again. That does not count
//! for this renewal, since another client may have held the lock there meanwhile. The next renewal finds the
//! lock there as at the other members.

use crate::engine::error::EngineError;
use crate::engine::redis::quorum::QuorumEngine;
use crate::engine::redis::quorum::ballot::Ballot;
use crate::engine::redis::quorum::members::Members;
use crate::engine::redis::quorum::registry::Registry;
use crate::engine::redis::quorum::replies::Replies;
use crate::engine::request::Claim;
use std::sync::Arc;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

type Renewed = Result<Vec<Result<bool, EngineError>>, EngineError>;

impl QuorumEngine {
    pub(crate) async fn renew(
        &self,
        claims: &[Claim],
        deadline: Instant,
    ) -> Result<Vec<Result<bool, EngineError>>, EngineError> {
        let (members, claims) = (&self.members, Arc::<[Claim]>::from(claims));
        let (sender, mut arriving) = mpsc::unbounded_channel();
        // Which locks a majority still holds, once that is known.
        let still_held = Arc::new(watch::Sender::new(None::<Arc<[bool]>>));
        for member in 0..members.count() {
            let (members, ballots) = (members.clone(), self.ballots.clone());
            let (claims, sender) = (claims.clone(), sender.clone());
            let mut still_held = still_held.subscribe();
            members.io.spawn(async move {
                let renewed = members.list[member].renew(&claims, deadline).await;
                members.record_reachability(member, &renewed);
                let _ = sender.send((member, renewed.clone()));
                drop(sender);
                if let Ok(renewed) = renewed
                    && let Ok(still_held) = still_held.wait_for(Option::is_some).await
                    && let Some(still_held) = &*still_held
                {
                    repair((&members, &ballots), member, &claims, &renewed, still_held);
                }
            });
        }
        drop(sender);
        let mut tallies = vec![Replies::new(members.count()); claims.len()];
        while tallies.iter().any(|replies| replies.decided().is_none()) {
            match members.io.timeout_at(deadline, arriving.recv()).await {
                Ok(Some((member, renewed))) => record_replies(&mut tallies, member, renewed),
                _ => break,
            }
        }
        let decided = tallies
            .iter()
            .map(|replies| replies.decided() == Some(true));
        still_held.send_replace(Some(decided.collect()));
        let result = |replies: &Replies| {
            let error = || replies.error(&members.list, "renewed", "not ours");
            replies.decided().ok_or_else(error)
        };
        Ok(tallies.iter().map(result).collect())
    }
}

fn record_replies(tallies: &mut [Replies], member: usize, renewed: Renewed) {
    match renewed {
        Ok(renewed) => {
            for (replies, renewed) in tallies.iter_mut().zip(renewed) {
                replies.record(member, renewed);
            }
        }
        Err(error) => {
            for replies in tallies {
                replies.record(member, Err(error.clone()));
            }
        }
    }
}

/// Restores the locks that a member has lost and a majority still holds.
fn repair(
    (members, ballots): (&Members, &Registry<Ballot>),
    member: usize,
    claims: &[Claim],
    renewed: &[Result<bool, EngineError>],
    still_held: &[bool],
) {
    for ((claim, renewed), stands) in claims.iter().zip(renewed).zip(still_held) {
        if *stands
            && matches!(renewed, Ok(false))
            && let Some(ballot) = ballots.get(claim.token)
        {
            let deadline = members.request_deadline(claim.ttl);
            members
                .io
                .spawn(async move { ballot.restore(member, deadline).await });
        }
    }
}
