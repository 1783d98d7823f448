//! Renewal: a lease is longer where a majority has really made it so.
//!
//! A member that has lost the lock, as by a restart, is given it again. That counts for nothing: nobody
//! knows who had the lock there meanwhile. The next renewal finds it there like everywhere else.

use crate::engine::error::EngineError;
use crate::engine::quorum::members::Members;
use crate::engine::quorum::tally::Tally;
use crate::engine::request::Claim;
use std::sync::Arc;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

type Renewed = Result<Vec<Result<bool, EngineError>>, EngineError>;

pub(crate) async fn renew(
    members: Arc<Members>,
    claims: Arc<[Claim]>,
    until: Instant,
) -> Result<Vec<Result<bool, EngineError>>, EngineError> {
    let (sender, mut answers) = mpsc::unbounded_channel();
    // Which locks a majority still has, once that is known.
    let standing = Arc::new(watch::Sender::new(None::<Arc<[bool]>>));
    for member in 0..members.count() {
        let (members, claims, sender) = (members.clone(), claims.clone(), sender.clone());
        let mut standing = standing.subscribe();
        members.io.spawn(async move {
            let renewed = members.all[member].renew(&claims, until).await;
            members.note(member, &renewed);
            let _ = sender.send((member, renewed.clone()));
            drop(sender);
            if let Ok(renewed) = renewed
                && let Ok(standing) = standing.wait_for(Option::is_some).await
                && let Some(standing) = &*standing
            {
                heal(&members, member, &claims, &renewed, standing);
            }
        });
    }
    drop(sender);
    let mut tallies = vec![Tally::new(members.count()); claims.len()];
    while tallies.iter().any(|tally| tally.decided().is_none()) {
        match members.io.timeout_at(until, answers.recv()).await {
            Ok(Some((member, renewed))) => enter(&mut tallies, member, renewed),
            _ => break,
        }
    }
    let decided = tallies.iter().map(|tally| tally.decided() == Some(true));
    standing.send_replace(Some(decided.collect()));
    let answer = |tally: &Tally| {
        let error = || tally.error(&members, "renewed", "not ours");
        tally.decided().ok_or_else(error)
    };
    Ok(tallies.iter().map(answer).collect())
}

fn enter(tallies: &mut [Tally], member: usize, renewed: Renewed) {
    match renewed {
        Ok(renewed) => {
            for (tally, renewed) in tallies.iter_mut().zip(renewed) {
                tally.enter(member, renewed);
            }
        }
        Err(error) => {
            for tally in tallies {
                tally.enter(member, Err(error.clone()));
            }
        }
    }
}

/// Gives a member the locks that it doesn't have and a majority does.
fn heal(
    members: &Arc<Members>,
    member: usize,
    claims: &[Claim],
    renewed: &[Result<bool, EngineError>],
    standing: &[bool],
) {
    for ((claim, renewed), stands) in claims.iter().zip(renewed).zip(standing) {
        if *stands
            && matches!(renewed, Ok(false))
            && let Some(ballot) = members.ballot(claim.token)
        {
            let until = members.patience(claim.ttl);
            members
                .io
                .spawn(async move { ballot.ask(member, until).await });
        }
    }
}
