//! Requests of one kind that go out as one statement.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::postgres::conn::batch::request::{Acquire, Release, Renew};
use crate::engine::postgres::conn::batch::round::Round;
use crate::engine::postgres::wire::error::Failure;
use crate::engine::postgres::wire::statements::{
    ACQUIRE, ACQUIRE_ONE, RELEASE, RELEASE_ONE, RENEW,
};
use crate::engine::postgres::wire::values::{Parameters, limit, text};
use crate::engine::token::Token;
use std::collections::HashSet;
use std::future::Future;
use tokio_postgres::types::Type;

/// A request that is sent together with others of its kind.
pub(crate) trait Gathered: Send + Sync + Sized {
    type Reply: Send;

    /// Sends all of them in one statement. Returns a reply for each.
    fn send(
        round: &Round<'_>,
        requests: &[Self],
    ) -> impl Future<Output = Result<Vec<Self::Reply>, Failure>> + Send;

    fn reply(self, reply: Result<Self::Reply, EngineError>);

    /// Returns `false` if the caller has left.
    fn is_wanted(&self) -> bool;

    /// Returns the tokens that may hold a lock because of the request.
    fn tokens(&self) -> &[Token] {
        &[]
    }
}

impl Gathered for Acquire {
    /// The number of locks acquired.
    type Reply = usize;

    async fn send(round: &Round<'_>, attempts: &[Acquire]) -> Result<Vec<usize>, Failure> {
        if let [attempt] = attempts
            && let ([name], [token]) = (&attempt.names[..], &attempt.tokens[..])
        {
            let acquired = attempt.send_one(round, name, *token).await?;
            return Ok(vec![usize::from(acquired)]);
        }
        Acquire::send_all(round, attempts).await
    }

    fn reply(self, reply: Result<usize, EngineError>) {
        let _ = self.reply.send(reply);
    }

    fn is_wanted(&self) -> bool {
        !self.reply.is_closed()
    }

    fn tokens(&self) -> &[Token] {
        &self.tokens
    }
}

impl Acquire {
    /// Returns `true` if the only lock of the attempt was acquired.
    async fn send_one(&self, round: &Round<'_>, name: &str, token: Token) -> Result<bool, Failure> {
        let parameters: &Parameters<'_> = &[
            (&name, Type::TEXT),
            (&text(token), Type::TEXT),
            (&limit(token), Type::INT4),
            (&self.ttl, Type::INT8),
            (&self.replicas, Type::INT4),
            (&round.void_after, Type::INT8),
        ];
        let (_, acquired) = round.query_one(ACQUIRE_ONE, parameters).await?;
        Ok(acquired)
    }

    /// Returns for each attempt the number of locks acquired.
    async fn send_all(round: &Round<'_>, attempts: &[Acquire]) -> Result<Vec<usize>, Failure> {
        let (mut names, mut tokens, mut limits) = (Vec::new(), Vec::new(), Vec::new());
        let (mut ttls, mut numbers) = (Vec::new(), Vec::new());
        for (attempt, number) in attempts.iter().zip(1_i32..) {
            for (name, token) in attempt.names.iter().zip(&attempt.tokens) {
                names.push(name.as_str());
                tokens.push(text(*token));
                limits.push(limit(*token));
                ttls.push(attempt.ttl);
                numbers.push(number);
            }
        }
        let replicas = attempts.first().map_or(0, |attempt| attempt.replicas);
        let parameters: &Parameters<'_> = &[
            (&names, Type::TEXT_ARRAY),
            (&tokens, Type::TEXT_ARRAY),
            (&limits, Type::INT4_ARRAY),
            (&ttls, Type::INT8_ARRAY),
            (&numbers, Type::INT4_ARRAY),
            (&replicas, Type::INT4),
            (&round.void_after, Type::INT8),
        ];
        let rows = round.query(ACQUIRE, parameters).await?;
        let counts: Option<Vec<i32>> = round.column(&rows, "counts")?;
        let count = |count| usize::try_from(count).unwrap_or_default();
        Ok(match counts {
            Some(counts) => counts.into_iter().map(count).collect(),
            None => attempts.iter().map(|attempt| attempt.names.len()).collect(),
        })
    }
}

impl Gathered for Release {
    /// Whether the lock was held; an error if an earlier request may still acquire it.
    type Reply = Result<bool, EngineError>;

    async fn send(round: &Round<'_>, releases: &[Release]) -> Result<Vec<Self::Reply>, Failure> {
        let (at, held) = Release::send_all(round, releases).await?;
        let reply = |(release, held): (&Release, bool)| {
            if round.pending.is_over(release.token, held, at) {
                return Ok(held);
            }
            // The release is to be repeated; it has its effect only if the lock was held.
            let kind = match held {
                true => EngineErrorKind::Indeterminate,
                false => EngineErrorKind::NotReady,
            };
            let words = "an earlier request for the lock may still be carried out";
            Err(EngineError::new(kind, words))
        };
        Ok(releases.iter().zip(held).map(reply).collect())
    }

    fn reply(self, reply: Result<Self::Reply, EngineError>) {
        self.recipient.send(reply.flatten());
    }

    fn is_wanted(&self) -> bool {
        self.recipient.is_wanted()
    }
}

impl Release {
    /// Returns the server's time, and for each lock whether it was held.
    async fn send_all(
        round: &Round<'_>,
        releases: &[Release],
    ) -> Result<(i64, Vec<bool>), Failure> {
        if let [release] = releases
            && !release.leaves
        {
            let token = text(release.token);
            let parameters: &Parameters<'_> = &[(&release.name, Type::TEXT), (&token, Type::TEXT)];
            let (at, held) = round.query_one(RELEASE_ONE, parameters).await?;
            return Ok((at, vec![held]));
        }
        let names: Vec<&str> = releases.iter().map(|it| it.name.as_str()).collect();
        let tokens: Vec<String> = releases.iter().map(|it| text(it.token)).collect();
        let leaves: Vec<bool> = releases.iter().map(|it| it.leaves).collect();
        let parameters: &Parameters<'_> = &[
            (&names, Type::TEXT_ARRAY),
            (&tokens, Type::TEXT_ARRAY),
            (&leaves, Type::BOOL_ARRAY),
        ];
        let rows = round.query(RELEASE, parameters).await?;
        Ok((round.column(&rows, "at")?, round.column(&rows, "held")?))
    }
}

impl Gathered for Renew {
    /// Whether each token still holds its lock.
    type Reply = Vec<bool>;

    async fn send(round: &Round<'_>, renewals: &[Renew]) -> Result<Vec<Vec<bool>>, Failure> {
        let (mut names, mut tokens, mut ttls) = (Vec::new(), Vec::new(), Vec::new());
        for renewal in renewals {
            names.extend(renewal.names.iter().map(String::as_str));
            tokens.extend(renewal.tokens.iter().map(String::as_str));
            ttls.extend_from_slice(&renewal.ttls);
        }
        let replicas = renewals.first().map_or(0, |renewal| renewal.replicas);
        let parameters: &Parameters<'_> = &[
            (&names, Type::TEXT_ARRAY),
            (&tokens, Type::TEXT_ARRAY),
            (&ttls, Type::INT8_ARRAY),
            (&replicas, Type::INT4),
        ];
        let rows = round.query(RENEW, parameters).await?;
        let renewed: Result<HashSet<&str>, _> = rows.iter().map(|row| row.try_get(0)).collect();
        let renewed = renewed.map_err(|error| round.failure(&error))?;
        let is_held = |token: &String| renewed.contains(token.as_str());
        let reply = |renewal: &Renew| renewal.tokens.iter().map(is_held).collect();
        Ok(renewals.iter().map(reply).collect())
    }

    fn reply(self, reply: Result<Vec<bool>, EngineError>) {
        let _ = self.reply.send(reply);
    }

    fn is_wanted(&self) -> bool {
        !self.reply.is_closed()
    }
}
