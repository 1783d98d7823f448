//! The record of one lock, and its bytes: `PROTOCOL.md` describes them.

use crate::engine::token::Token;
use std::fmt;

/// The length of the random bytes at the front, which differ in all records.
pub(crate) const STAMP: usize = 16;

/// For how many microseconds an idle record is remembered.
const REMEMBERED: u64 = 3_600_000_000;

/// What begins the record of a lock of this version.
const FORMAT: u8 = 1;

/// What the last byte of a holder says, besides whether its proof follows.
const GRANTED: u8 = 1;
const PROVEN: u8 = 2;
const LEFT: u8 = 4;

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Record {
    /// The last fencing token that was drawn.
    pub(crate) fence: u64,
    /// It stays when it is not in use: it has drawn a fencing token, or an insertion may still come.
    pub(crate) keep: bool,
    /// Identifies the call while waiters are called, of which those that do not answer in time are dead; else
    /// 0.
    pub(crate) call: u32,
    /// The server's time, in microseconds since 1970, at which the call ends; 0 if it is not known.
    pub(crate) call_until: u64,
    pub(crate) holders: Vec<Holder>,
    /// In their order.
    pub(crate) waiters: Vec<Waiter>,
    /// The tokens from which the lock was taken last: they enter no more.
    pub(crate) taken: Vec<Token>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Holder {
    pub(crate) token: Token,
    /// In milliseconds.
    pub(crate) ttl: u32,
    /// Differs after each write of this holder: so others see that it lives. It begins at random.
    pub(crate) renewals: u32,
    /// The server's time, in microseconds since 1970, by which the lease has ended; 0 if it is not known.
    pub(crate) until: u64,
    /// The lock was granted by the one that left, and the process has not confirmed it yet.
    pub(crate) granted: bool,
    /// The number of its proof, on which transactions may rely; 0 if there is none.
    pub(crate) proof: u64,
    /// It has left, or its lease has ended, and its proof has not.
    pub(crate) left: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Waiter {
    pub(crate) token: Token,
    pub(crate) ttl: u32,
    /// It is called, and has not answered.
    pub(crate) absent: bool,
}

/// Why bytes are no record of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    Later,
    Foreign,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unreadable::Later => {
                "a later version of lock-runtime has written the record; update this service"
            }
            Unreadable::Foreign => {
                "another program has written the record; free the lock by `locks revoke --force`, or choose another \
                 `prefix`"
            }
        })
    }
}

impl std::error::Error for Unreadable {}

impl Record {
    /// Lets the record stay when it is not in use, since an insertion may still come.
    pub(crate) fn stay(&mut self, clock: u64) {
        (self.keep, self.fence) = (true, self.fence.max(clock));
    }

    /// Returns `true` if the record only stays for what it remembers, and that is older than an hour: by then
    /// the clock is ahead of its fencing token, and no late write comes.
    pub(crate) fn is_forgotten(&self, clock: u64) -> bool {
        self.is_idle() && self.fence.saturating_add(REMEMBERED) < clock
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.holders.is_empty() && self.waiters.is_empty()
    }

    pub(crate) fn encode(&self, stamp: [u8; STAMP]) -> Vec<u8> {
        let mut bytes = stamp.to_vec();
        bytes.extend([FORMAT, u8::from(self.keep)]);
        bytes.extend(self.fence.to_be_bytes());
        bytes.extend(self.call.to_be_bytes());
        bytes.extend(self.call_until.to_be_bytes());
        for count in [self.taken.len(), self.holders.len()] {
            bytes.extend((count as u16).to_be_bytes());
        }
        for token in &self.taken {
            bytes.extend(token.to_bytes());
        }
        for holder in &self.holders {
            bytes.extend(holder.token.to_bytes());
            bytes.extend(holder.ttl.to_be_bytes());
            bytes.extend(holder.renewals.to_be_bytes());
            bytes.extend(holder.until.to_be_bytes());
            let flag = |is_set: bool, flag| if is_set { flag } else { 0 };
            let proven = flag(holder.proof != 0, PROVEN);
            bytes.push(flag(holder.granted, GRANTED) | proven | flag(holder.left, LEFT));
            if holder.proof != 0 {
                bytes.extend(holder.proof.to_be_bytes());
            }
        }
        for waiter in &self.waiters {
            bytes.extend(waiter.token.to_bytes());
            bytes.extend(waiter.ttl.to_be_bytes());
            bytes.push(u8::from(waiter.absent));
        }
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Record, Unreadable> {
        let mut rest = Rest(bytes);
        let format = rest.take::<STAMP>().and_then(|_| rest.u8());
        match format {
            Some(FORMAT) => rest.record().ok_or(Unreadable::Foreign),
            Some(FORMAT..) => Err(Unreadable::Later),
            _ => Err(Unreadable::Foreign),
        }
    }
}

/// What is left to be read.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn record(&mut self) -> Option<Record> {
        let mut record = Record {
            keep: self.bool()?,
            fence: self.u64()?,
            call: self.u32()?,
            call_until: self.u64()?,
            ..Record::default()
        };
        let counts = [self.u16()?, self.u16()?];
        for _ in 0..counts[0] {
            record.taken.push(self.token()?);
        }
        for _ in 0..counts[1] {
            record.holders.push(self.holder()?);
        }
        while !self.0.is_empty() {
            record.waiters.push(Waiter {
                token: self.token()?,
                ttl: self.u32()?,
                absent: self.bool()?,
            });
        }
        Some(record)
    }

    fn holder(&mut self) -> Option<Holder> {
        let (token, ttl, renewals, until) = (self.token()?, self.u32()?, self.u32()?, self.u64()?);
        let flags = self
            .u8()
            .filter(|it| it & !(GRANTED | PROVEN | LEFT) == 0)?;
        let proof = match flags & PROVEN {
            0 => 0,
            _ => self.u64().filter(|it| *it != 0)?,
        };
        Some(Holder {
            token,
            ttl,
            renewals,
            until,
            granted: flags & GRANTED != 0,
            proof,
            left: flags & LEFT != 0,
        })
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn token(&mut self) -> Option<Token> {
        self.take().and_then(Token::from_bytes)
    }

    fn bool(&mut self) -> Option<bool> {
        match self.u8()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn u8(&mut self) -> Option<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_be_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::Limit;

    fn record() -> Record {
        let token = Token::random;
        Record {
            fence: 7,
            keep: true,
            call: 3,
            call_until: 5,
            holders: vec![Holder {
                token: token().with_limit(Limit::UNLIMITED),
                ttl: 30_000,
                renewals: 2,
                until: 9,
                granted: true,
                proof: 0,
                left: false,
            }],
            waiters: vec![Waiter {
                token: token(),
                ttl: 1,
                absent: true,
            }],
            taken: vec![token()],
        }
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let record = record();
        assert_eq!(Record::decode(&record.encode([7; STAMP])), Ok(record));
        let held = Record {
            taken: Vec::new(),
            waiters: Vec::new(),
            ..self::record()
        };
        assert_eq!(held.encode([0; STAMP]).len(), 77);
        let mut proven = held;
        (proven.holders[0].proof, proven.holders[0].left) = (9, true);
        let bytes = proven.encode([0; STAMP]);
        assert_eq!(bytes.len(), 77 + 8);
        assert_eq!(Record::decode(&bytes), Ok(proven));
    }

    #[test]
    fn what_is_no_record_is_refused() {
        let bytes = record().encode([7; STAMP]);
        // Without waiters it is one, too.
        let waiter = bytes.len() - 23;
        for cut in (0..bytes.len()).filter(|cut| *cut != waiter) {
            assert_eq!(
                Record::decode(&bytes[..cut]),
                Err(Unreadable::Foreign),
                "{cut}"
            );
        }
        for (format, expected) in [(0, Unreadable::Foreign), (2, Unreadable::Later)] {
            let mut bytes = bytes.clone();
            bytes[STAMP] = format;
            assert_eq!(Record::decode(&bytes), Err(expected));
        }
    }
}
