//! Asks whether a majority of the members would grant a lock now.

use crate::engine::error::EngineError;
use crate::engine::quorum::members::Members;
use std::sync::Arc;
use tokio::time::Instant;

pub(crate) async fn ping(members: &Arc<Members>, deadline: Instant) -> Result<(), EngineError> {
    let answers = members.ask_all(|member| {
        let members = members.clone();
        async move { members.list[member].ping(deadline).await }
    });
    let read = |answer: Result<(), EngineError>| answer.map(|()| true);
    let replies = members.collect(answers, deadline, read).await;
    match replies.decided() {
        Some(_) => Ok(()),
        None => Err(replies.error(&members.list, "accepts locks", "")),
    }
}
