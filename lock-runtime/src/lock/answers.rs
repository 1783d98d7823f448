//! What other processes answer that were asked for a lock, for the revocations that wait for it.

use crate::engine::token::Token;
use crate::lock::asks::Stop;
use crate::util::sync::Mutex;
use std::collections::HashSet;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

#[derive(Default)]
pub(crate) struct Answers(Mutex<Vec<Subscriber>>);

/// A revocation, and the tokens that it is about.
struct Subscriber {
    tokens: HashSet<Token>,
    sender: UnboundedSender<(Token, Stop)>,
}

impl Answers {
    /// Receives all answers about these tokens from now on. A process that stops, and ends, answers just
    /// once, and any number of others may answer at the same moment.
    pub(crate) fn about(&self, tokens: HashSet<Token>) -> UnboundedReceiver<(Token, Stop)> {
        let (sender, receiver) = unbounded_channel();
        self.0.lock().push(Subscriber { tokens, sender });
        receiver
    }

    pub(crate) fn came(&self, token: Token, how: Stop) {
        self.0.lock().retain(|it| match it.tokens.contains(&token) {
            true => it.sender.send((token, how)).is_ok(),
            false => !it.sender.is_closed(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_about_others_push_none_out() {
        let answers = Answers::default();
        let meant = Token::random();
        let mut received = answers.about(HashSet::from([meant]));
        answers.came(meant, Stop::Ended);
        for _ in 0..1000 {
            answers.came(Token::random(), Stop::Ended);
        }
        assert_eq!(received.try_recv(), Ok((meant, Stop::Ended)));
        assert!(received.try_recv().is_err());
        drop(received);
        answers.came(meant, Stop::Ended);
        assert!(answers.0.lock().is_empty());
    }
}
