//! What one process asks of others, and what they answer.

use crate::engine::token::Token;
use crate::lock::report::text::{Fields, field};
use std::fmt;
use std::time::Duration;

/// A text that all processes receive which listen.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Ask {
    /// To report at once.
    Report,
    /// To give a lock up.
    Revoke(Wanted),
    /// The answer: the body that was to give up the lock with this token runs no more.
    Stopped(Token, Stop),
}

/// How a process knows that a body which is meant runs no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Stop {
    /// It was asked, and has ended.
    Ended,
    /// Another body of the process has the lock now.
    PassedOn,
    /// None runs under that token. The process may not know yet that the server has granted it the lock.
    Absent,
}

/// A lock that somebody wants back.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Wanted {
    /// Whoever holds it with this token is meant,
    pub(crate) token: Token,
    /// if its present guard has had it for so long.
    pub(crate) held_for: Duration,
    pub(crate) by: Box<str>,
    pub(crate) reason: Box<str>,
}

impl Ask {
    /// Parses a text, which anybody may have sent.
    pub(crate) fn parse(text: &str) -> Option<Ask> {
        let mut fields = Fields::of(text);
        match fields.next()? {
            "report" => Some(Ask::Report),
            "revoke" => Some(Ask::Revoke(Wanted {
                token: Token::parse(fields.next()?)?,
                held_for: Duration::from_millis(fields.number()?),
                by: fields.text()?,
                reason: fields.text()?,
            })),
            "stopped" => Some(Ask::Stopped(
                Token::parse(fields.next()?)?,
                match fields.next()? {
                    "ended" => Stop::Ended,
                    "passed-on" => Stop::PassedOn,
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
            Ask::Revoke(Wanted {
                token,
                held_for,
                by,
                reason,
            }) => {
                let held_for = held_for.as_millis();
                let (by, reason) = (field(by), field(reason));
                write!(f, "revoke\t{token}\t{held_for}\t{by}\t{reason}")
            }
            Ask::Stopped(token, how) => {
                let how = match how {
                    Stop::Ended => "ended",
                    Stop::PassedOn => "passed-on",
                    Stop::Absent => "absent",
                };
                write!(f, "stopped\t{token}\t{how}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::Limit;
    use crate::process::ProcessId;

    #[test]
    fn an_ask_is_parsed_as_it_was_written() {
        let token = Token::draw(ProcessId::random());
        for (token, ms) in [(token, 0), (token.with_limit(Limit::UNLIMITED), 700)] {
            let ask = Ask::Revoke(Wanted {
                token,
                held_for: Duration::from_millis(ms),
                by: "ann\tb\n".into(),
                reason: "a\\b \u{1b}[31m".into(),
            });
            assert_eq!(Ask::parse(&ask.to_string()), Some(ask));
            for how in [Stop::Ended, Stop::PassedOn, Stop::Absent] {
                let answer = Ask::Stopped(token, how);
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
            "revoke\tworker-7\t0\tann\twhy".into(),
            format!("revoke\t{token}\t-1\tann\twhy"),
            format!("revoke\t{token}\t0\tann"),
            format!("revoke {token} * ann why"),
            "renew\tall".into(),
            format!("stopped\t{token}"),
            format!("stopped\t{token}\tno"),
            "stopped\tworker-7\tended".into(),
        ] {
            assert_eq!(Ask::parse(&text), None, "{text:?}");
        }
    }
}
