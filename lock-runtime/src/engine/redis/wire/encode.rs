//! Turns requests into bytes: acquisitions and releases directly, and other commands as the driver packs them.

use crate::engine::redis::keys::{DerivedKey, Keys};
use crate::engine::redis::wire::request::{Encoder, Request};
use crate::engine::token::Token;
use std::sync::Arc;
use std::time::Duration;

/// The greatest number of releases in one call of the script, which keeps the server busy for about 80 µs.
const MAX_RELEASES: usize = 64;

/// The size of the buffer that is kept between writes.
const MAX_IDLE: usize = 256 * 1024;

/// What the bytes depend on, besides the requests.
pub(crate) struct Encoding {
    pub(crate) keys: Keys,
    /// The digests of the scripts that acquire shared locks, and that release locks.
    pub(crate) take: String,
    pub(crate) release: String,
}

/// The bytes to be written.
pub(crate) struct Output {
    encoding: Arc<Encoding>,
    /// The packed command that awaits replicas, if the connection has one.
    wait: Vec<u8>,
    bytes: Vec<u8>,
    written: usize,
}

impl Output {
    pub(crate) fn new(encoding: Arc<Encoding>, wait: Vec<u8>) -> Output {
        Output {
            encoding,
            wait,
            bytes: Vec::new(),
            written: 0,
        }
    }

    /// Returns the bytes that are still to be written.
    pub(crate) fn rest(&self) -> &[u8] {
        &self.bytes[self.written..]
    }

    /// Records that the next bytes have been written.
    pub(crate) fn advance(&mut self, written: usize) {
        self.written += written;
        if self.written >= self.bytes.len() {
            self.bytes.clear();
            self.bytes.shrink_to(MAX_IDLE);
            self.written = 0;
        }
    }

    fn array(&mut self, length: usize) {
        self.header(b'*', length);
    }

    fn bulk(&mut self, bytes: &[u8]) {
        self.bulk_of([bytes]);
    }

    /// Writes one string, of which these are the parts.
    fn bulk_of<const N: usize>(&mut self, parts: [&[u8]; N]) {
        self.header(b'$', parts.iter().map(|part| part.len()).sum());
        for part in parts {
            self.bytes.extend_from_slice(part);
        }
        self.bytes.extend_from_slice(b"\r\n");
    }

    fn bulk_number(&mut self, number: u64) {
        self.bulk(itoa::Buffer::new().format(number).as_bytes());
    }

    fn bulk_token(&mut self, token: Token) {
        self.bulk(token.encode(&mut [0; 37]).as_bytes());
    }

    fn bulk_key(&mut self, key: DerivedKey<'_>) {
        self.bulk_of(key.parts().map(str::as_bytes));
    }

    fn header(&mut self, kind: u8, length: usize) {
        self.bytes.push(kind);
        let mut digits = itoa::Buffer::new();
        self.bytes
            .extend_from_slice(digits.format(length).as_bytes());
        self.bytes.extend_from_slice(b"\r\n");
    }
}

impl Encoder for Output {
    fn max_releases(&self) -> usize {
        match self.encoding.keys.in_cluster() {
            // The keys of one script must be in one slot.
            true => 1,
            false => MAX_RELEASES,
        }
    }

    fn releases(&mut self, batch: &[(&Arc<str>, Token)]) {
        let encoding = self.encoding.clone();
        let absent = match batch {
            [(lock, _)] => encoding.keys.absent_key(lock),
            _ => None,
        };
        let keys = 3 * batch.len() + absent.iter().count();
        self.array(3 + keys + batch.len());
        self.bulk(b"EVALSHA");
        self.bulk(encoding.release.as_bytes());
        self.bulk_number(keys as u64);
        for (lock, _) in batch {
            self.bulk(lock.as_bytes());
        }
        for (lock, _) in batch {
            self.bulk_key(encoding.keys.queue(lock));
        }
        for (lock, _) in batch {
            self.bulk_key(encoding.keys.waiters(lock));
        }
        if let Some(absent) = absent {
            self.bulk(absent.as_bytes());
        }
        for (_, token) in batch {
            self.bulk_token(*token);
        }
    }

    fn request(&mut self, request: &Request) {
        match request {
            Request::Acquire {
                attempt,
                token: Some(token),
                ..
            } if attempt.needs_script() => {
                let (encoding, locks) = (self.encoding.clone(), attempt.names().count());
                self.array(4 + 3 * locks);
                self.bulk(b"EVALSHA");
                self.bulk(encoding.take.as_bytes());
                self.bulk_number(2 * locks as u64);
                for name in attempt.names() {
                    self.bulk(name.as_bytes());
                    self.bulk_key(encoding.keys.queue(name));
                }
                self.bulk_number(milliseconds(attempt.ttl));
                for nth in 0..locks as u32 {
                    self.bulk_token(token.nth(nth));
                }
            }
            Request::Acquire {
                attempt,
                token: Some(token),
                ..
            } => {
                self.array(6);
                self.bulk(b"SET");
                self.bulk(attempt.name.as_bytes());
                self.bulk_token(*token);
                self.bytes.extend_from_slice(b"$2\r\nNX\r\n$2\r\nPX\r\n");
                self.bulk_number(milliseconds(attempt.ttl));
            }
            Request::Command { packed, .. } => self.bytes.extend_from_slice(packed),
            // The slots write no acquisition without its token, and releases in batches.
            Request::Acquire { .. } | Request::Release { .. } => {}
        }
    }

    fn asking(&mut self) {
        self.bytes.extend_from_slice(b"*1\r\n$6\r\nASKING\r\n");
    }

    fn wait_for_replicas(&mut self) {
        self.bytes.extend_from_slice(&self.wait);
    }
}

pub(crate) fn milliseconds(ttl: Duration) -> u64 {
    u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::request::Attempt;
    use crate::limit::Limit;

    const TOKEN: &str = "0123456789abcdef0123456789abcdef";

    fn output(cluster: bool) -> Output {
        let encoding = Encoding {
            keys: Keys::new("lock:", cluster).unwrap(),
            take: "take".to_owned(),
            release: "digest".to_owned(),
        };
        Output::new(Arc::new(encoding), b"wait".to_vec())
    }

    fn written(output: &mut Output) -> String {
        let written = String::from_utf8(output.rest().to_vec()).unwrap();
        output.advance(written.len());
        assert!(output.rest().is_empty());
        written
    }

    /// The same bytes as the redis crate packs.
    fn packed(arguments: &[&str]) -> String {
        let mut command = redis::Cmd::new();
        for argument in arguments {
            command.arg(argument);
        }
        String::from_utf8(command.get_packed_command()).unwrap()
    }

    #[test]
    fn requests_are_packed_as_the_redis_crate_packs_them() {
        let mut output = output(false);
        let token = Token::parse(TOKEN);
        for ttl in [0, 9, 10, 30_000, u64::MAX] {
            let attempt = Attempt {
                name: "lock:é".into(),
                ttl: Duration::from_millis(ttl),
                replicas: 0,
                limit: Limit::EXCLUSIVE,
                waits: false,
                others: None,
            };
            output.request(&Request::Acquire {
                attempt,
                token,
                asking: false,
            });
            let expected = packed(&["SET", "lock:é", TOKEN, "NX", "PX", &ttl.to_string()]);
            assert_eq!(written(&mut output), expected);
        }
        output.asking();
        assert_eq!(written(&mut output), packed(&["ASKING"]));
        output.wait_for_replicas();
        assert_eq!(written(&mut output), "wait");
    }

    #[test]
    fn a_shared_lock_is_acquired_by_a_script() {
        let mut output = output(false);
        let text = [TOKEN, "/2047"].concat();
        let attempt = Attempt {
            name: "lock:a".into(),
            ttl: Duration::from_secs(30),
            replicas: 0,
            limit: Limit::UNLIMITED,
            waits: false,
            others: None,
        };
        output.request(&Request::Acquire {
            attempt,
            token: Token::parse(&text),
            asking: false,
        });
        let expected = packed(&[
            "EVALSHA",
            "take",
            "2",
            "lock:a",
            "lock:::queue:a",
            "30000",
            &text,
        ]);
        assert_eq!(written(&mut output), expected);
    }

    #[test]
    fn several_locks_are_acquired_by_one_script_with_a_token_for_each() {
        let mut output = output(false);
        let attempt = Attempt {
            name: "lock:a".into(),
            ttl: Duration::from_secs(30),
            replicas: 0,
            limit: Limit::EXCLUSIVE,
            waits: false,
            others: Some(["lock:b".into()].into()),
        };
        output.request(&Request::Acquire {
            attempt,
            token: Token::parse(TOKEN),
            asking: false,
        });
        let expected = packed(&[
            "EVALSHA",
            "take",
            "4",
            "lock:a",
            "lock:::queue:a",
            "lock:b",
            "lock:::queue:b",
            "30000",
            TOKEN,
            "0123456789abcdef0123456789abcdf0",
        ]);
        assert_eq!(written(&mut output), expected);
    }

    #[test]
    fn a_batch_names_the_keys_of_all_locks() {
        let (mut output, token) = (output(false), Token::parse(TOKEN).unwrap());
        let names: [Arc<str>; 2] = ["lock:a".into(), "lock:b".into()];
        output.releases(&[(&names[0], token), (&names[1], token)]);
        let expected = packed(&[
            "EVALSHA",
            "digest",
            "6",
            "lock:a",
            "lock:b",
            "lock:::queue:a",
            "lock:::queue:b",
            "lock:::waiters:a",
            "lock:::waiters:b",
            TOKEN,
            TOKEN,
        ]);
        assert_eq!(written(&mut output), expected);
    }

    #[test]
    fn a_release_in_a_cluster_names_a_key_that_never_exists() {
        let (mut output, token) = (output(true), Token::parse(TOKEN).unwrap());
        assert_eq!(output.max_releases(), 1);
        let name: Arc<str> = "lock:a".into();
        output.releases(&[(&name, token)]);
        let keys = Keys::new("lock:", true).unwrap();
        let expected = packed(&[
            "EVALSHA",
            "digest",
            "4",
            "lock:a",
            &keys.queue("lock:a").to_string(),
            &keys.waiters("lock:a").to_string(),
            &keys.absent_key("lock:a").unwrap(),
            TOKEN,
        ]);
        assert_eq!(written(&mut output), expected);
    }
}
