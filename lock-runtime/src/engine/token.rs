//! The token of a lock attempt.

use uuid::Uuid;

/// The random identity of one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Token(Uuid);

impl Token {
    pub(crate) fn random() -> Token {
        Token(Uuid::new_v4())
    }

    pub(crate) fn parse(text: &str) -> Option<Token> {
        Uuid::try_parse(text).ok().map(Token)
    }

    pub(crate) fn encode_hex(self, buffer: &mut [u8; 32]) -> &str {
        self.0.simple().encode_lower(buffer)
    }
}
