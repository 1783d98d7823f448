//! The tokens whose requests were under way when their connection ended: they may be carried out later.

use crate::engine::token::Token;
use crate::util::sync::Mutex;
use std::collections::HashMap;

/// A token that a request may give a lock, or a place in its queue.
#[derive(Clone, Copy)]
pub(crate) struct Gain {
    pub(crate) token: Token,
    /// `true` if only one request is ever sent for the token.
    pub(crate) is_single: bool,
}

#[derive(Default)]
pub(crate) struct Unanswered(Mutex<HashMap<Token, Late>>);

#[derive(Clone, Copy)]
struct Late {
    /// The server time in microseconds after which the server ignores the request.
    void_after: i64,
    is_single: bool,
    /// `true` if the request ends with the process of the server that it was sent to.
    is_bound: bool,
}

impl Unanswered {
    /// Records requests that the server ignores after that time, or once the process that they were sent to has ended
    /// if they are `bound` to it.
    pub(crate) fn add(&self, gains: impl Iterator<Item = Gain>, void_after: i64, is_bound: bool) {
        const LONG_OVER: i64 = 3_600_000_000;

        let mut unanswered = self.0.lock();
        unanswered.retain(|_, late| void_after.saturating_sub(late.void_after) < LONG_OVER);
        unanswered.extend(gains.map(|gain| {
            let late = Late {
                void_after,
                is_single: gain.is_single,
                is_bound,
            };
            (gain.token, late)
        }));
    }

    /// Forgets the requests that were sent to processes which have ended.
    pub(crate) fn processes_ended(&self) {
        let mut unanswered = self.0.lock();
        unanswered.retain(|_, late| !late.is_bound);
    }

    /// Returns `true` if nothing that was sent for the token can be carried out after a request that the server
    /// answered at that time. `held`: the token held its lock until then.
    pub(crate) fn is_over(&self, token: Token, held: bool, at: i64) -> bool {
        let mut unanswered = self.0.lock();
        let Some(late) = unanswered.get(&token) else {
            return true;
        };
        let is_over = at > late.void_after || (held && late.is_single);
        if is_over {
            unanswered.remove(&token);
        }
        is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unanswered(is_single: bool, is_bound: bool) -> (Unanswered, Token) {
        let (unanswered, token) = (Unanswered::default(), Token::random());
        let gain = Gain { token, is_single };
        unanswered.add([gain].into_iter(), 1000, is_bound);
        (unanswered, token)
    }

    #[test]
    fn request_that_is_sent_once_is_over_once_its_lock_was_held() {
        let (unanswered, token) = unanswered(true, false);
        assert!(!unanswered.is_over(token, false, 1000));
        assert!(unanswered.is_over(token, true, 1000));
        assert!(unanswered.is_over(token, false, 1000));
    }

    #[test]
    fn request_that_is_repeated_is_over_when_it_is_void() {
        let (unanswered, token) = unanswered(false, false);
        assert!(!unanswered.is_over(token, true, 1000));
        assert!(unanswered.is_over(token, true, 1001));
    }

    #[test]
    fn request_to_a_process_that_has_ended_is_over() {
        for (is_bound, expected) in [(true, true), (false, false)] {
            let (unanswered, token) = unanswered(false, is_bound);
            unanswered.processes_ended();
            assert_eq!(unanswered.is_over(token, false, 0), expected);
        }
    }
}
