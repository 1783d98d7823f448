//! Recalling a lock from a process that may keep it for its next call.

use crate::engine::token::Token;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// After how long a recall is repeated at first, and at last: it may have been lost, or the body goes on.
pub(crate) const REPEAT: Duration = Duration::from_millis(500);
pub(crate) const LAST_REPEAT: Duration = Duration::from_secs(30);

/// What stands for any token in a text.
const ANY: &str = "*";

/// A lock that another process is to give back once no body needs it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Recall {
    pub(crate) name: Arc<str>,
    /// The token that may keep it; `None` if another process is about to wait for it, for whichever keeps it.
    pub(crate) token: Option<Token>,
}

impl Recall {
    /// Parses a text, which any client may have written.
    pub(crate) fn parse(text: &str) -> Option<Recall> {
        let (token, name) = text.split_once(' ')?;
        Some(Recall {
            name: name.into(),
            token: match token {
                ANY => None,
                token => Some(Token::parse(token)?),
            },
        })
    }
}

impl fmt::Display for Recall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.token {
            Some(token) => write!(f, "{token} {}", self.name),
            None => write!(f, "{ANY} {}", self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recall_is_parsed_as_it_was_written() {
        for token in [None, Some(Token::random().recallable_if(true))] {
            let name = "lock:a b\n* ".into();
            let recall = Recall { name, token };
            assert_eq!(Recall::parse(&recall.to_string()), Some(recall));
        }
        for text in ["", "*", "lock:a b", "** lock:a"] {
            assert_eq!(Recall::parse(text), None, "{text}");
        }
    }
}
