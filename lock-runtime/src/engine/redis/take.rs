//! Takes a lock from its holder, whoever that is.

use crate::engine::error::EngineError;
use crate::engine::operations::Taken;
use crate::engine::redis::RedisEngine;
use crate::engine::redis::conn::request::Via;
use crate::engine::redis::scripts::Script;
use crate::engine::redis::wire::encode::milliseconds;
use crate::engine::timeouts::TOMBSTONE_TTL;
use crate::engine::token::Token;
use tokio::time::Instant;

impl RedisEngine {
    /// Takes the lock from the holder with that token, passes it on, and draws a fencing token.
    pub(crate) async fn take(
        &self,
        name: &str,
        token: &str,
        at_least: u64,
        deadline: Instant,
    ) -> Result<Taken, EngineError> {
        let script = &self.scripts.revoke;
        // Only clients with our tokens look for a tombstone.
        let tombstone = is_ours(token).then(|| self.keys.tombstone(name, token));
        let from = (name, token);
        self.revoke(script, from, tombstone, at_least, deadline)
            .await
    }

    /// Takes the lock at this member of a quorum, and notifies the first waiter. Votes look for no tombstone.
    pub(crate) async fn take_at_member(
        &self,
        name: &str,
        token: &str,
        at_least: u64,
        deadline: Instant,
    ) -> Result<Taken, EngineError> {
        let (script, from) = (&self.scripts.revoke_and_notify, (name, token));
        self.revoke(script, from, None, at_least, deadline).await
    }

    async fn revoke(
        &self,
        script: &Script,
        (name, token): (&str, &str),
        tombstone: Option<String>,
        at_least: u64,
        deadline: Instant,
    ) -> Result<Taken, EngineError> {
        let token = self.stored_token(name, token, deadline).await?;
        let tombstone_ttl = tombstone
            .as_ref()
            .map_or(0, |_| milliseconds(TOMBSTONE_TTL));
        let tombstone = tombstone.unwrap_or_else(|| self.keys.tombstone(name, ""));
        let absent_key = self.keys.absent_key(name);
        let keys = (name, 5 + absent_key.iter().count());
        let taken = self.eval(Via::IoThread, script, keys, deadline, |command| {
            self.queue_keys(command, name);
            command
                .arg(&tombstone)
                .arg(self.keys.fencing_counter(name))
                .arg(&absent_key)
                .arg(&token)
                .arg(tombstone_ttl)
                .arg(at_least);
        });
        let (held, fencing_token): (bool, u64) = taken.await?;
        Ok(Taken {
            held,
            pinned: false,
            fencing_token,
        })
    }
}

/// Returns `true` for a token as this library writes it.
pub(crate) fn is_ours(token: &str) -> bool {
    let parsed = Token::parse(token);
    parsed.is_some_and(|parsed| parsed.encode(&mut [0; 37]) == token)
}
