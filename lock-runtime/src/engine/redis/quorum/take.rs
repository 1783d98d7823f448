//! Takes a lock from its holder, in two phases.
//!
//! Each member takes the lock, and draws a number that is greater than all that it knows. Then all do so
//! again, and draw none that is less than the greatest. The holder's fencing token is stored at a majority,
//! which shares a member with the first phase's; a later one is drawn at a majority that shares a member with
//! the second phase's.
//!
//! A token that less than a majority has holds no lock, but is in the way of others, and is taken, too. Its
//! number means nothing: another token may hold the lock with a number below it.

use crate::engine::error::EngineError;
use crate::engine::operations::Taken;
use crate::engine::redis::quorum::QuorumEngine;
use crate::engine::redis::quorum::majority::majority;
use crate::engine::redis::quorum::members::Members;
use std::sync::Arc;
use tokio::time::Instant;

impl QuorumEngine {
    pub(crate) async fn take(
        &self,
        name: &str,
        token: &str,
        at_least: u64,
        deadline: Instant,
    ) -> Result<Taken, EngineError> {
        let (members, name, token) = (self.members.clone(), name.into(), token.into());
        let taken = take(members, name, token, at_least, deadline);
        self.members.run_on_io_thread(taken).await
    }
}

async fn take(
    members: Arc<Members>,
    name: Arc<str>,
    token: Arc<str>,
    at_least: u64,
    deadline: Instant,
) -> Result<Taken, EngineError> {
    let take_at_all = async |at_least| {
        let replies = members.ask_all(|member| {
            let (members, name, token) = (members.clone(), name.clone(), token.clone());
            async move {
                let member = &members.list[member];
                member.take(&name, &token, at_least, deadline).await
            }
        });
        members.gather(replies, deadline, "taken").await
    };
    let first = take_at_all(at_least).await?;
    let numbers = first.iter().map(|taken| taken.fencing_token);
    let fencing_token = numbers.max().unwrap_or(at_least);
    let second = take_at_all(fencing_token).await?;
    let all = first.iter().chain(&second);
    let held = all.filter(|taken| taken.held).count();
    // Those that did not reply may have it.
    let silent = members.count() - first.len();
    Ok(Taken {
        held: held + silent >= majority(members.count()),
        pinned: false,
        fencing_token,
    })
}
