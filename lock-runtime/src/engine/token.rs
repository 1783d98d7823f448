//! The token of a lock attempt.

use uuid::Uuid;

/// The random identity of one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Token(Uuid);

impl Token {
    /// Returns a random token made of these random bytes.
    pub(crate) fn from_random(bytes: [u8; 16]) -> Token {
        Token(uuid::Builder::from_random_bytes(bytes).into_uuid())
    }

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
