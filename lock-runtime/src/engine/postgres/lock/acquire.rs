//! Acquires locks that are free: all those of an attempt in one call.

use crate::engine::background_release::{AwaitedAcquire, ReleaseSupervisor};
use crate::engine::error::EngineError;
use crate::engine::postgres::conn::batch::request::{Acquire, Request};
use crate::engine::postgres::conn::batch::sender::RequestSender;
use crate::engine::postgres::keys::{is_stored_whole, stored};
use crate::engine::postgres::wire::values::{micros, replicas};
use crate::engine::request::{Acquired, Attempt};
use crate::engine::token::{Draw, Token};
use std::sync::Arc;
use tokio::time::Instant;

pub(crate) async fn acquire(
    requests: &RequestSender,
    attempt: &Attempt,
    supervisor: &Arc<dyn ReleaseSupervisor>,
    deadline: Instant,
) -> Result<Option<Acquired>, EngineError> {
    let token = draw(attempt);
    let awaited = AwaitedAcquire::new(attempt, token, supervisor);
    let request = |reply| {
        Request::Acquire(Acquire {
            names: attempt.names().map(|name| stored(name).into()).collect(),
            tokens: attempt.claims(token).map(|claim| claim.token).collect(),
            ttl: micros(attempt.ttl),
            replicas: replicas(attempt.replicas),
            reply,
        })
    };
    let acquired = requests.send(request, deadline).await;
    awaited.replied(acquired)
}

/// Draws the token. A recall tells the stored name, from which the holder must know its lock.
fn draw(attempt: &Attempt) -> Token {
    let draw = Draw::now();
    match attempt.is_lazy && !is_stored_whole(&attempt.name) {
        true => {
            let confirmed = Attempt {
                is_lazy: false,
                ..attempt.clone()
            };
            confirmed.token(draw)
        }
        false => attempt.token(draw),
    }
}
