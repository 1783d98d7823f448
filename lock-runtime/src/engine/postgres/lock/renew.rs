//! Renews leases: those with the same number of replicas in one call.

use crate::engine::error::EngineError;
use crate::engine::postgres::PostgresEngine;
use crate::engine::postgres::conn::batch::request::{Renew, Request};
use crate::engine::postgres::conn::batch::sender::RequestSender;
use crate::engine::postgres::keys::stored;
use crate::engine::postgres::wire::values::{micros, replicas, text};
use crate::engine::request::Claim;
use crate::util::join_all::join_all;
use tokio::time::Instant;

impl PostgresEngine {
    pub(crate) async fn renew(
        &self,
        claims: &[Claim],
        deadline: Instant,
    ) -> Result<Vec<Result<bool, EngineError>>, EngineError> {
        Ok(renew(&self.requests, claims, deadline).await)
    }
}

async fn renew(
    requests: &RequestSender,
    claims: &[Claim],
    deadline: Instant,
) -> Vec<Result<bool, EngineError>> {
    let groups = claims.chunk_by(|one, other| one.replicas == other.replicas);
    let renewed = join_all(groups.map(async |claims| {
        let request = |reply| {
            Request::Renew(Renew {
                names: claims.iter().map(|it| stored(&it.name).into()).collect(),
                tokens: claims.iter().map(|claim| text(claim.token)).collect(),
                ttls: claims.iter().map(|claim| micros(claim.ttl)).collect(),
                replicas: replicas(claims.first().map_or(0, |claim| claim.replicas)),
                reply,
            })
        };
        match requests.send(request, deadline).await {
            Ok(renewed) => renewed.into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error); claims.len()],
        }
    }));
    renewed.await.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::token::Token;
    use crate::util::io_thread::IoThread;
    use crate::util::time::deadline_in;
    use std::future::Future;
    use std::task::{Context, Waker};
    use std::time::Duration;

    #[test]
    fn renewals_with_different_replicas_are_sent_at_once() {
        let requests = RequestSender::new(IoThread::start().unwrap());
        let claims = [1, 2].map(|replicas| Claim {
            name: "row".into(),
            token: Token::random(),
            ttl: Duration::from_secs(30),
            replicas,
        });
        let deadline = deadline_in(Duration::from_secs(1));
        let mut renew = Box::pin(renew(&requests, &claims, deadline));
        let begun = renew.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(begun.is_pending());
        assert_eq!(requests.queue.take(9).len(), 2);
    }
}
