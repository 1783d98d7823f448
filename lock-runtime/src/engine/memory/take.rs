//! Takes a lock from its holder.

use crate::engine::memory::store::Store;
use crate::engine::operations::Taken;
use crate::engine::request::Claim;
use crate::engine::timeouts::TOMBSTONE_TTL;
use crate::engine::token::Token;
use crate::util::clock::Timestamp;
use std::time::Duration;

impl Store {
    /// Takes the lock from the holder with that token.
    pub(crate) fn take(&self, name: &str, token: &str, at_least: u64) -> Taken {
        let (mut state, now) = self.lock();
        let holders = state.holders(name, now).iter().filter_map(|it| it.token());
        let found = holders.into_iter().find(|held| held.to_string() == token);
        let held = found.is_some_and(|token| {
            let claim = Claim {
                name: name.into(),
                token,
                ttl: Duration::ZERO,
                replicas: 0,
            };
            state.vacate(&claim, now)
        });
        if let Some(token) = Token::parse(token) {
            let is_known = |at: &Timestamp| now.elapsed_since(*at) < TOMBSTONE_TTL;
            state.taken.retain(|_, at| is_known(at));
            state.taken.insert(token, now);
        }
        state.last_fencing_token = at_least.max(state.last_fencing_token + 1);
        let fencing_token = state.last_fencing_token;
        state.grant_next(&name.into(), now);
        Taken {
            held,
            pinned: false,
            fencing_token,
        }
    }
}
