//! The token of a lock attempt, which says what process made it, and when.

use crate::error::Holder;
use crate::limit::Limit;
use crate::process::{self, ProcessId};
use std::fmt;
use std::time::{Duration, SystemTime};
use uuid::{Builder, Uuid, Variant};

/// The identity of one attempt, and the attempt's limit.
///
/// The identity is a UUID of version 8 ([RFC 9562](https://www.rfc-editor.org/rfc/rfc9562#section-5.8)), of
/// which 51 bits are random: 20 at the front, since the greatest token leads a split vote; then 28 of the
/// process; after the version the one that says whether the holder may be recalled, and 11 that are random;
/// after the variant 42 of the time in milliseconds; and 20 that are random.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Token {
    id: Uuid,
    limit: Limit,
}

/// What a token is made of besides the process.
#[derive(Clone, Copy)]
pub(crate) struct Draw {
    /// Drawn anew for each token: a virtual machine that is cloned must not repeat one, so nothing is
    /// counted.
    pub(crate) random: [u8; 16],
    pub(crate) made_at: SystemTime,
}

impl Draw {
    pub(crate) fn now() -> Draw {
        Draw {
            random: Uuid::new_v4().into_bytes(),
            made_at: SystemTime::now(),
        }
    }
}

const PROCESS: u32 = 80;
const PROCESS_MASK: u128 = (1 << process::BITS) - 1;
const RECALLABLE: u128 = 1 << 75;
const TIME: u32 = 20;
const TIME_MASK: u128 = (1 << 42) - 1;
/// The random bits at the end, of which the tokens of several locks differ.
const LAST_MASK: u128 = (1 << 20) - 1;

impl Token {
    /// Returns the token of an exclusive holder.
    pub(crate) fn new(process: ProcessId, draw: Draw) -> Token {
        let Draw { random, made_at } = draw;
        let since = made_at.duration_since(SystemTime::UNIX_EPOCH);
        let ms = since.unwrap_or_default().as_millis() & TIME_MASK;
        let random = u128::from_be_bytes(random)
            & !(PROCESS_MASK << PROCESS | RECALLABLE | TIME_MASK << TIME);
        let bits = random | u128::from(process.0) << PROCESS | ms << TIME;
        Token {
            id: Builder::from_custom_bytes(bits.to_be_bytes()).into_uuid(),
            limit: Limit::EXCLUSIVE,
        }
    }

    /// Returns a new token of an exclusive holder.
    pub(crate) fn draw(process: ProcessId) -> Token {
        Token::new(process, Draw::now())
    }

    #[cfg(test)]
    pub(crate) fn random() -> Token {
        Token::draw(ProcessId::random())
    }

    /// Returns a new token of the same process, with the same limit, and recallable if this one is.
    pub(crate) fn again(self) -> Token {
        let token = Token::draw(self.process()).with_limit(self.limit);
        token.recallable_if(self.is_recallable())
    }

    /// Returns who holds a lock under this token.
    pub(crate) fn holder(self) -> Holder {
        if self.id.get_version_num() != 8 || self.id.get_variant() != Variant::RFC4122 {
            return Holder::AnotherClient;
        }
        let ms = (self.id.as_u128() >> TIME & TIME_MASK) as u64;
        Holder::Process {
            id: self.process(),
            since: SystemTime::UNIX_EPOCH + Duration::from_millis(ms),
            info: None,
        }
    }

    /// Returns the process of a token that one of this library's made.
    pub(crate) fn process(self) -> ProcessId {
        ProcessId((self.id.as_u128() >> PROCESS & PROCESS_MASK) as u32)
    }

    /// Marks the token of a holder if it may keep the lock after its body, and hears when another process
    /// waits.
    pub(crate) fn recallable_if(self, may_keep: bool) -> Token {
        let mark = if may_keep { RECALLABLE } else { 0 };
        Token {
            id: Uuid::from_u128(self.id.as_u128() | mark),
            ..self
        }
    }

    pub(crate) fn is_recallable(self) -> bool {
        self.id.get_version_num() == 8 && self.id.as_u128() & RECALLABLE != 0
    }

    /// Sets the limit. A token that was sent keeps its limit.
    pub(crate) fn with_limit(self, limit: Limit) -> Token {
        Token { limit, ..self }
    }

    /// Returns the token that follows this one after `nth - 1` others: that of a further lock of one attempt,
    /// since a token identifies one lock.
    pub(crate) fn nth(self, nth: u32) -> Token {
        let bits = self.id.as_u128();
        let last = bits.wrapping_add(u128::from(nth)) & LAST_MASK;
        Token {
            id: Uuid::from_u128(bits & !LAST_MASK | last),
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

    /// Parses the bytes that a server stores.
    pub(crate) fn read(bytes: &[u8]) -> Option<Token> {
        std::str::from_utf8(bytes).ok().and_then(Token::parse)
    }

    /// Returns the identity, and the number of the limit.
    #[cfg(feature = "store")]
    pub(crate) fn to_bytes(self) -> [u8; 18] {
        let mut bytes = [0; 18];
        bytes[..16].copy_from_slice(self.id.as_bytes());
        bytes[16..].copy_from_slice(&self.limit.number().unwrap_or(1).to_be_bytes());
        bytes
    }

    #[cfg(feature = "store")]
    pub(crate) fn from_bytes(bytes: [u8; 18]) -> Option<Token> {
        let (id, number) = bytes.split_first_chunk()?;
        let limit = match u16::from_be_bytes(number.try_into().ok()?) {
            1 => Limit::EXCLUSIVE,
            number => Limit::from_number(number)?,
        };
        let id = Uuid::from_bytes(*id);
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

/// The token as the server stores it.
impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.encode(&mut [0; 37]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    const VERSION_AND_VARIANT: u128 = 0xf << 76 | 0b11 << 62;
    const RANDOM: u128 =
        !(PROCESS_MASK << PROCESS | RECALLABLE | TIME_MASK << TIME | VERSION_AND_VARIANT);
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
        let token = Token::draw(ProcessId::random()).with_limit(Limit::UNLIMITED);
        assert_eq!(Token::parse(token.encode(&mut [0; 37])), Some(token));
    }

    /// `LOCK_TOKENS=10000000` sets their number.
    #[test]
    fn random_tokens_are_parsed_as_they_were_composed() {
        assert_eq!(RANDOM.count_ones(), 51);
        let count = std::env::var("LOCK_TOKENS").map_or(100_000, |count| count.parse().unwrap());
        for n in 0..count {
            let process = ProcessId::random();
            let ms = Uuid::new_v4().as_u128() & TIME_MASK;
            let since = SystemTime::UNIX_EPOCH + Duration::from_millis(ms as u64);
            let made_at = since + Duration::from_nanos(n % 1_000_000);
            let random = Uuid::new_v4().into_bytes();
            let limit = Limit::from_number((n % 2047 + 1) as u16).unwrap_or(Limit::EXCLUSIVE);
            let token = Token::new(process, Draw { random, made_at }).with_limit(limit);

            let mut buffer = [0; 37];
            let text = token.encode(&mut buffer);
            assert_eq!(Token::read(text.as_bytes()), Some(token), "{text}");
            assert_eq!(
                token.holder(),
                Holder::Process {
                    id: process,
                    since,
                    info: None
                }
            );
            let differ = token.id.as_u128() ^ u128::from_be_bytes(random);
            assert_eq!(differ & RANDOM, 0, "{text} has other bits than were drawn");
        }
    }

    #[test]
    fn a_token_names_its_process_and_its_time() {
        let since = SystemTime::UNIX_EPOCH + Duration::from_millis(1_795_536_000_123);
        for n in 0..10_000_u128 {
            let random = (u128::MAX / 10_000 * n).to_be_bytes();
            let process = ProcessId((n as u32 * 26_843) & 0xfff_ffff);
            let made_at = since;
            let token = Token::new(process, Draw { random, made_at });
            let holder = Holder::Process {
                id: process,
                since,
                info: None,
            };
            assert_eq!(token.holder(), holder);
            assert_eq!(token.nth(999).holder(), holder);
        }
    }

    #[test]
    fn the_same_process_draws_different_tokens_at_the_same_time() {
        let (process, made_at) = (ProcessId::random(), SystemTime::now());
        let draw = || {
            let draw = Draw {
                made_at,
                ..Draw::now()
            };
            Token::new(process, draw)
        };
        let tokens: HashSet<Token> = (0..100_000).map(|_| draw()).collect();
        assert_eq!(tokens.len(), 100_000);
    }

    #[test]
    fn tokens_of_several_locks_differ() {
        let random = [0xff; 16];
        let made_at = SystemTime::UNIX_EPOCH;
        let token = Token::new(ProcessId(1), Draw { random, made_at });
        let tokens: HashSet<Token> = (0..1000).map(|nth| token.nth(nth)).collect();
        assert_eq!(tokens.len(), 1000);
        assert!(tokens.iter().all(|other| other.holder() == token.holder()));
    }

    #[test]
    fn a_token_of_another_client_names_no_process() {
        for text in [
            "0123456789ab4def8123456789abcdef",
            "0123456789ab8def0123456789abcdef",
        ] {
            let holder = Token::parse(text).unwrap().holder();
            assert_eq!(holder, Holder::AnotherClient, "{text}");
        }
        let ours = Token::parse("e823e7be01c58c509a20e4619a300481").unwrap();
        let Holder::Process { id, since, .. } = ours.holder() else {
            panic!("{:?}", ours.holder());
        };
        assert_eq!(id.to_string(), "7be01c5");
        let since = since.duration_since(SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(since.as_millis(), 0x1a2_0e46_19a3);
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
