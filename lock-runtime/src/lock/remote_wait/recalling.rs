//! When a claim that waits recalls the lock from a process that may keep it for its next call.

use crate::engine::recall::{LAST_REPEAT, REPEAT};
use crate::engine::token::Token;
use std::time::Duration;
use tokio::time::Instant;

/// What a claim has recalled last.
#[derive(Default)]
pub(super) struct Recalling(Option<(Token, Instant, Duration)>);

impl Recalling {
    /// Returns `true` if it is time to recall the lock from the one that holds it with that token.
    pub(super) fn is_due(&mut self, holder: Token, now: Instant) -> bool {
        let pause = match self.0 {
            Some((of, at, pause)) if of == holder => {
                if now < at + pause {
                    return false;
                }
                (pause * 2).min(LAST_REPEAT)
            }
            _ => REPEAT,
        };
        self.0 = Some((holder, now, pause));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::util::time::now;

    #[test]
    fn a_recall_is_repeated_less_and_less() {
        let (mut recalling, start) = (Recalling::default(), now());
        let holders = [(); 2].map(|()| Token::random());
        let mut times = (0..90_000).step_by(100).collect::<Vec<_>>();
        times.retain(|after| recalling.is_due(holders[0], start + Duration::from_millis(*after)));
        let expected = [0, 500, 1500, 3500, 7500, 15_500, 31_500, 61_500];
        assert_eq!(times, expected);
        assert!(recalling.is_due(holders[1], start));
    }
}
