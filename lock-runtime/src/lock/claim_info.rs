//! What the server says of a claim.

use crate::engine::token::Token;
use crate::error::Holder;
use crate::limit::Limit;
use crate::lock_info::{ClaimInfo, Mode};

/// Returns what the token says. A text that is none is that of another client, which counts as exclusive.
pub(crate) fn claim(token: Box<str>) -> ClaimInfo {
    let parsed = Token::parse(&token);
    ClaimInfo {
        mode: parsed.map_or(Mode::Exclusive, |token| mode(token.limit())),
        process: match parsed.map(Token::holder) {
            Some(Holder::Process { id, since, .. }) => Some((id, since)),
            _ => None,
        },
        token,
        lease: None,
        votes: None,
        report: None,
    }
}

fn mode(limit: Limit) -> Mode {
    match limit.number() {
        None => Mode::Exclusive,
        Some(_) if limit == Limit::UNLIMITED => Mode::Read,
        Some(permits) => Mode::Permits(permits.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::ProcessId;

    #[test]
    fn a_token_names_the_mode_and_the_process() {
        let process = ProcessId::random();
        let permits = Limit::permits(5).unwrap();
        for (limit, expected) in [
            (Limit::EXCLUSIVE, Mode::Exclusive),
            (permits, Mode::Permits(5)),
            (Limit::UNLIMITED, Mode::Read),
        ] {
            let token = Token::draw(process).with_limit(limit);
            let found = claim(token.encode(&mut [0; 37]).into());
            assert_eq!(found.mode, expected);
            assert_eq!(found.process.map(|(id, _)| id), Some(process));
        }
    }

    #[test]
    fn any_other_text_is_another_client() {
        for text in [
            "",
            "?",
            "worker-7",
            "0123456789abcdef0123456789abcdef",
            "\u{0}\n/2047",
        ] {
            let found = claim(text.into());
            assert_eq!(
                (found.mode, found.process),
                (Mode::Exclusive, None),
                "{text:?}"
            );
        }
    }
}
