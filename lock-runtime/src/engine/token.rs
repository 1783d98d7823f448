//! The token of a lock attempt.

use crate::limit::Limit;
use uuid::{Builder, Uuid};

/// The first bytes of every token of this version, by which scripts tell it from those of other clients: only its
/// clients know that a mark may follow their token.
const PREFIX: [u8; 4] = [0xd1, 0x57, 0x10, 0xcc];

/// The random identity of one attempt, and the attempt's limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Token {
    id: Uuid,
    limit: Limit,
}

impl Token {
    /// Returns a random token of an exclusive holder, made of these random bytes.
    pub(crate) fn from_random(mut bytes: [u8; 16]) -> Token {
        bytes[..4].copy_from_slice(&PREFIX);
        Token {
            id: Builder::from_custom_bytes(bytes).into_uuid(),
            limit: Limit::EXCLUSIVE,
        }
    }

    /// Returns a random token of an exclusive holder.
    pub(crate) fn random() -> Token {
        Token::from_random(Uuid::new_v4().into_bytes())
    }

    /// Sets the limit. A token that was sent keeps its limit.
    pub(crate) fn with_limit(self, limit: Limit) -> Token {
        Token { limit, ..self }
    }

    /// Returns the token that follows this one after `nth - 1` others: that of a further lock of one attempt, since
    /// a token identifies one lock.
    pub(crate) fn nth(self, nth: u32) -> Token {
        let id = self.id.as_u128().wrapping_add(u128::from(nth));
        Token {
            id: Uuid::from_u128(id),
            ..self
        }
    }

    /// Parses 32 hexadecimal digits, which a slash and a limit may follow.
    pub(crate) fn parse(text: &str) -> Option<Token> {
        let (id, limit) = match text.split_once('/') {
            Some((id, number)) => (id, Limit::from_number(number.parse().ok()?)?),
            None => (text, Limit::EXCLUSIVE),
        };
        let id = Uuid::try_parse(id).ok()?;
        Some(Token { id, limit })
    }

    pub(crate) fn limit(self) -> Limit {
        self.limit
    }

    /// Returns the token as the server stores it.
    pub(crate) fn encode(self, buffer: &mut [u8; 37]) -> &str {
        let id = self.id.simple();
        let Some(number) = self.limit.number() else {
            return id.encode_lower(buffer);
        };
        let mut length = id.encode_lower(buffer).len();
        buffer[length] = b'/';
        length += 1;
        let mut unit = 1000;
        while unit > 0 {
            if number >= unit {
                buffer[length] = b'0' + (number / unit % 10) as u8;
                length += 1;
            }
            unit /= 10;
        }
        // Only ASCII was written.
        std::str::from_utf8(&buffer[..length]).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef";

    #[test]
    fn a_token_is_parsed_as_it_was_encoded() {
        for limit in [
            "", "/2", "/9", "/10", "/99", "/100", "/999", "/1000", "/2046", "/2047",
        ] {
            let text = [ID, limit].concat();
            let token = Token::parse(&text).expect(&text);
            assert_eq!(token.encode(&mut [0; 37]), text);
        }
        let token = Token::random().with_limit(Limit::UNLIMITED);
        assert_eq!(Token::parse(token.encode(&mut [0; 37])), Some(token));
    }

    #[test]
    fn an_invalid_limit_is_no_token() {
        for limit in [
            "/", "/0", "/1", "/2048", "/65538", "/-2", "/2/2", "/x", " /2",
        ] {
            assert_eq!(Token::parse(&[ID, limit].concat()), None, "{limit}");
        }
    }
}
