//! What one process asks of others, and what they answer.

use crate::engine::token::Token;
use crate::lock::report::text::{Fields, field, whole_field};
use std::fmt;

/// Whichever body has the lock.
const ANY: &str = "*";

/// A text that all processes receive which listen.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Ask {
    /// To report at once.
    Report,
    /// To give a lock up.
    Revoke(RevokeRequest),
    /// The answer: the bodies that were to give up the lock with these tokens run no more.
    Stopped(Vec<Token>, Stop),
}

/// How a process knows that a body which is meant runs no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Stop {
    /// It was asked, and has ended.
    Ended,
    /// Another body of the process has the lock now, which it has handed on more often than this.
    PassedOn(u32),
    /// None runs under that token. The process may not know yet that the server has granted it the lock.
    Absent,
}

/// The wish that holders give their lock up.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RevokeRequest {
    pub(crate) key: Box<str>,
    /// The holders' tokens. One text names several, as many holders are asked at once.
    pub(crate) tokens: Vec<Token>,
    /// Not if the process has handed the lock on more often than this by now: the body that is meant has
    /// ended. `None` means whichever body has the lock.
    pub(crate) handoffs: Option<u32>,
    pub(crate) by: Box<str>,
    pub(crate) reason: Box<str>,
}

impl Ask {
    /// Parses a text, which any client may have sent.
    pub(crate) fn parse(text: &str) -> Option<Ask> {
        let mut fields = Fields::of(text);
        match fields.next()? {
            "report" => Some(Ask::Report),
            "revoke" => Some(Ask::Revoke(RevokeRequest {
                key: fields.whole_text()?,
                tokens: tokens(fields.next()?)?,
                handoffs: match fields.next()? {
                    ANY => None,
                    number => Some(number.parse().ok()?),
                },
                by: fields.text()?,
                reason: fields.text()?,
            })),
            "stopped" => Some(Ask::Stopped(
                tokens(fields.next()?)?,
                match fields.next()? {
                    "ended" => Stop::Ended,
                    "passed-on" => Stop::PassedOn(fields.number()?),
                    "absent" => Stop::Absent,
                    _ => return None,
                },
            )),
            _ => None,
        }
    }
}

impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ask::Report => f.write_str("report"),
            Ask::Revoke(RevokeRequest {
                key,
                tokens,
                handoffs,
                by,
                reason,
            }) => {
                let tokens = joined(tokens);
                let handoffs = handoffs.map_or(ANY.to_owned(), |number| number.to_string());
                let (key, by, reason) = (whole_field(key), field(by), field(reason));
                write!(f, "revoke\t{key}\t{tokens}\t{handoffs}\t{by}\t{reason}")
            }
            Ask::Stopped(tokens, how) => {
                write!(f, "stopped\t{}\t", joined(tokens))?;
                match how {
                    Stop::Ended => f.write_str("ended"),
                    Stop::Absent => f.write_str("absent"),
                    Stop::PassedOn(handoffs) => write!(f, "passed-on\t{handoffs}"),
                }
            }
        }
    }
}

fn tokens(field: &str) -> Option<Vec<Token>> {
    field.split(' ').map(Token::parse).collect()
}

fn joined(tokens: &[Token]) -> String {
    let tokens: Vec<_> = tokens.iter().map(Token::to_string).collect();
    tokens.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::Limit;
    use crate::process::ProcessId;

    #[test]
    fn an_ask_is_parsed_as_it_was_written() {
        let token = Token::draw(ProcessId::random());
        let reader = token.with_limit(Limit::UNLIMITED);
        for (tokens, handoffs) in [(vec![token], Some(7)), (vec![reader, token], None)] {
            let ask = Ask::Revoke(RevokeRequest {
                key: "row\t".repeat(100).into(),
                tokens: tokens.clone(),
                handoffs,
                by: "ann\tb\n".into(),
                reason: "a\\b \u{1b}[31m".into(),
            });
            assert_eq!(Ask::parse(&ask.to_string()), Some(ask));
            for how in [Stop::Ended, Stop::PassedOn(7), Stop::Absent] {
                let answer = Ask::Stopped(tokens.clone(), how);
                assert_eq!(Ask::parse(&answer.to_string()), Some(answer));
            }
        }
        assert_eq!(Ask::parse(&Ask::Report.to_string()), Some(Ask::Report));
    }

    #[test]
    fn any_other_text_asks_for_nothing() {
        let token = Token::draw(ProcessId::random());
        for text in [
            String::new(),
            "\n".into(),
            "revoke".into(),
            "revoke\t".into(),
            "revoke\trow\tworker-7\t0\tann\twhy".into(),
            "revoke\trow\t\t0\tann\twhy".into(),
            format!("revoke\trow\t{token} \t0\tann\twhy"),
            format!("revoke\trow\t{token}\t-1\tann\twhy"),
            format!("revoke\trow\t{token}\t0\tann"),
            format!("revoke row {token} * ann why"),
            "renew\tall".into(),
            format!("stopped\t{token}"),
            format!("stopped\t{token}\tno"),
            format!("stopped\t{token}\tpassed-on"),
            "stopped\tworker-7\tended".into(),
        ] {
            assert_eq!(Ask::parse(&text), None, "{text:?}");
        }
    }
}
