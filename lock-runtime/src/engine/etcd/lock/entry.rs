//! A claim as the server stores it: a key, whose value is the token.

use crate::engine::common::line::Entry;
use crate::engine::etcd::wire::messages::KeyValue;
use crate::engine::token::Token;
use crate::limit::Limit;
use prost::bytes::Bytes;

/// Returns a token as it is stored.
pub(crate) fn value_of(token: Token) -> Bytes {
    Bytes::copy_from_slice(token.encode(&mut [0; 37]).as_bytes())
}

impl Entry for KeyValue {
    /// A client that writes no token of ours wants the lock for itself.
    fn limit(&self) -> Limit {
        self.token().map_or(Limit::EXCLUSIVE, Token::limit)
    }

    fn token(&self) -> Option<Token> {
        Token::read(&self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_of_another_client_is_exclusive() {
        for (value, limit) in [
            ("0123456789abcdef0123456789abcdef/2047", Limit::UNLIMITED),
            ("0123456789abcdef0123456789abcdef", Limit::EXCLUSIVE),
            ("", Limit::EXCLUSIVE),
        ] {
            let entry = KeyValue {
                value: value.into(),
                ..KeyValue::default()
            };
            assert_eq!(entry.limit(), limit, "{value}");
        }
    }
}
