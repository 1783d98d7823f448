//! The tokens whose requests had no reply when their connection ended: the server may still carry them out.

use crate::engine::token::Token;
use crate::util::sync::Mutex;
use std::collections::HashMap;

/// A token that a request may give a lock, or a place in its queue.
#[derive(Clone, Copy)]
pub(crate) struct PendingToken {
    pub(crate) token: Token,
    /// `true` if only one request is ever sent for the token.
    pub(crate) is_sent_once: bool,
}

#[derive(Default)]
pub(crate) struct PendingTokens(Mutex<HashMap<Token, Pending>>);

#[derive(Clone, Copy)]
struct Pending {
    /// The server time in microseconds after which the server ignores the request.
    void_after: i64,
    is_sent_once: bool,
    /// `true` if the request ends with the backend that it was sent to.
    is_bound: bool,
}

impl PendingTokens {
    /// Adds tokens whose requests the server ignores after that time, or once the backend that they were sent
    /// to has ended if they are `bound` to it.
    pub(crate) fn add(
        &self,
        tokens: impl Iterator<Item = PendingToken>,
        void_after: i64,
        is_bound: bool,
    ) {
        const LONG_OVER: i64 = 3_600_000_000;

        let mut pending = self.0.lock();
        pending.retain(|_, other| void_after.saturating_sub(other.void_after) < LONG_OVER);
        pending.extend(tokens.map(|added| {
            let request = Pending {
                void_after,
                is_sent_once: added.is_sent_once,
                is_bound,
            };
            (added.token, request)
        }));
    }

    /// Forgets the requests that were sent to backends which have ended.
    pub(crate) fn backends_ended(&self) {
        self.0.lock().retain(|_, request| !request.is_bound);
    }

    /// Returns `true` if no request that was sent for the token can be carried out after another one to which
    /// the server replied at that time. `held`: the token held its lock until then.
    pub(crate) fn is_over(&self, token: Token, held: bool, at: i64) -> bool {
        let mut pending = self.0.lock();
        let Some(request) = pending.get(&token) else {
            return true;
        };
        let is_over = at > request.void_after || (held && request.is_sent_once);
        if is_over {
            pending.remove(&token);
        }
        is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pending(is_sent_once: bool, is_bound: bool) -> (PendingTokens, Token) {
        let (pending, token) = (PendingTokens::default(), Token::random());
        let added = PendingToken {
            token,
            is_sent_once,
        };
        pending.add([added].into_iter(), 1000, is_bound);
        (pending, token)
    }

    #[test]
    fn request_that_is_sent_once_is_over_once_its_lock_was_held() {
        let (pending, token) = pending(true, false);
        assert!(!pending.is_over(token, false, 1000));
        assert!(pending.is_over(token, true, 1000));
        assert!(pending.is_over(token, false, 1000));
    }

    #[test]
    fn request_that_is_repeated_is_over_when_it_is_void() {
        let (pending, token) = pending(false, false);
        assert!(!pending.is_over(token, true, 1000));
        assert!(pending.is_over(token, true, 1001));
    }

    #[test]
    fn request_to_a_backend_that_has_ended_is_over() {
        for (is_bound, expected) in [(true, true), (false, false)] {
            let (pending, token) = pending(false, is_bound);
            pending.backends_ended();
            assert_eq!(pending.is_over(token, false, 0), expected);
        }
    }
}
