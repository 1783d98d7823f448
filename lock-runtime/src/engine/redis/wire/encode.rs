//! Turns requests into bytes: those that acquire and release locks directly, the others by the redis crate.

use crate::engine::redis::keys::{DerivedKey, Keys};
use crate::engine::redis::scripts::{Script, Scripts};
use crate::engine::request::Attempt;
use crate::engine::token::Token;
use redis::{Cmd, ToRedisArgs};
use std::sync::Arc;
use std::time::Duration;

/// Turns requests into bytes, in the order of the calls.
pub(crate) trait Encoder {
    /// The greatest number of releases in one call of the script.
    fn max_releases(&self) -> usize;

    /// Writes one call of the script that releases several locks.
    fn releases(&mut self, batch: &[(&Arc<str>, Token)], with_source: bool);

    /// Writes the request that acquires what the attempt names, with the tokens that begin with this one.
    fn acquisition(&mut self, attempt: &Attempt, token: Token, with_source: bool);

    /// Writes any other command.
    fn command(&mut self, command: &Cmd);

    /// Writes the request after which a node executes one that another node redirected to it.
    fn asking(&mut self);

    /// Writes the request that waits for the replicas.
    fn wait_for_replicas(&mut self);
}

/// Returns the command of these words.
pub(crate) fn command(words: &[impl ToRedisArgs]) -> Cmd {
    let mut command = Cmd::new();
    command.arg(words);
    command
}

/// The greatest number of releases in one call of the script, which keeps the server busy for about 80 µs.
const MAX_RELEASES: usize = 64;

/// The size of the buffer that is kept between writes.
const MAX_IDLE: usize = 256 * 1024;

/// What the bytes depend on, besides the requests.
pub(crate) struct Encoding {
    pub(crate) keys: Keys,
    pub(crate) scripts: Arc<Scripts>,
}

impl Encoding {
    /// Fails if the keys of a lock would not be in one slot of the cluster.
    pub(crate) fn new(prefix: &str, cluster: bool) -> Result<Encoding, &'static str> {
        Ok(Encoding {
            keys: Keys::new(prefix, cluster)?,
            scripts: Arc::new(Scripts::new(cluster)),
        })
    }
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

    /// Begins a call of a script: that number of keys follows, then of other arguments.
    fn call(&mut self, script: &Script, with_source: bool, keys: usize, arguments: usize) {
        self.array(3 + keys + arguments);
        for word in script.call(with_source) {
            self.bulk(word.as_bytes());
        }
        self.bulk_number(keys as u64);
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
        match length {
            // Most lengths have one digit.
            0..=9 => {
                let digit = b'0' + length as u8;
                self.bytes.extend_from_slice(&[kind, digit, b'\r', b'\n']);
            }
            _ => {
                self.bytes.push(kind);
                let mut digits = itoa::Buffer::new();
                let digits = digits.format(length).as_bytes();
                self.bytes.extend_from_slice(digits);
                self.bytes.extend_from_slice(b"\r\n");
            }
        }
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

    fn releases(&mut self, batch: &[(&Arc<str>, Token)], with_source: bool) {
        let encoding = self.encoding.clone();
        let (keys, script) = (&encoding.keys, &encoding.scripts.release);
        let absent = match batch {
            [(lock, _)] => keys.absent_key(lock),
            _ => None,
        };
        let count = 3 * batch.len() + absent.iter().count();
        self.call(script, with_source, count, batch.len());
        for (lock, _) in batch {
            self.bulk(lock.as_bytes());
        }
        for (lock, _) in batch {
            self.bulk_key(keys.queue(lock));
        }
        for (lock, _) in batch {
            self.bulk_key(keys.waiters(lock));
        }
        if let Some(absent) = absent {
            self.bulk(absent.as_bytes());
        }
        for (_, token) in batch {
            self.bulk_token(*token);
        }
    }

    fn acquisition(&mut self, attempt: &Attempt, token: Token, with_source: bool) {
        if !attempt.needs_script() {
            let (mut text, mut ttl) = ([0; 37], itoa::Buffer::new());
            let ttl = ttl.format(milliseconds(attempt.ttl));
            let set = set(&attempt.name, token.encode(&mut text), ttl);
            self.array(set.len());
            return set.iter().for_each(|part| self.bulk(part.as_bytes()));
        }
        let (encoding, locks) = (self.encoding.clone(), attempt.names().count());
        self.call(&encoding.scripts.take, with_source, 2 * locks, 1 + locks);
        for name in attempt.names() {
            self.bulk(name.as_bytes());
            self.bulk_key(encoding.keys.queue(name));
        }
        self.bulk_number(milliseconds(attempt.ttl));
        for nth in 0..locks as u32 {
            self.bulk_token(token.nth(nth));
        }
    }

    fn command(&mut self, command: &Cmd) {
        command.write_packed_command(&mut self.bytes);
    }

    fn asking(&mut self) {
        self.bytes.extend_from_slice(b"*1\r\n$6\r\nASKING\r\n");
    }

    fn wait_for_replicas(&mut self) {
        self.bytes.extend_from_slice(&self.wait);
    }
}

/// Returns the arguments of the command that acquires a lock if it is free.
pub(crate) fn set<'a>(name: &'a str, token: &'a str, milliseconds: &'a str) -> [&'a str; 6] {
    ["SET", name, token, "NX", "PX", milliseconds]
}

pub(crate) fn milliseconds(ttl: Duration) -> u64 {
    u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::Limit;
    use crate::process::ProcessId;

    const TOKEN: &str = "0123456789abcdef0123456789abcdef";

    fn output(cluster: bool) -> Output {
        let encoding = Encoding {
            keys: Keys::new("lock:", cluster).unwrap(),
            scripts: Arc::new(Scripts::new(cluster)),
        };
        Output::new(Arc::new(encoding), b"wait".to_vec())
    }

    fn attempt(name: &str, limit: Limit, others: Option<Arc<[Arc<str>]>>) -> Attempt {
        Attempt {
            is_recallable: false,
            process: ProcessId::random(),
            name: name.into(),
            ttl: Duration::from_secs(30),
            replicas: 0,
            limit,
            waits: false,
            others,
        }
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
        let token = Token::parse(TOKEN).unwrap();
        for ttl in [0, 9, 10, 30_000, u64::MAX] {
            let attempt = Attempt {
                ttl: Duration::from_millis(ttl),
                ..attempt("lock:é", Limit::EXCLUSIVE, None)
            };
            output.acquisition(&attempt, token, false);
            let expected = packed(&["SET", "lock:é", TOKEN, "NX", "PX", &ttl.to_string()]);
            assert_eq!(written(&mut output), expected);
        }
        output.asking();
        assert_eq!(written(&mut output), packed(&["ASKING"]));
        output.command(redis::cmd("CLIENT").arg("INFO"));
        assert_eq!(written(&mut output), packed(&["CLIENT", "INFO"]));
        output.wait_for_replicas();
        assert_eq!(written(&mut output), "wait");
    }

    #[test]
    fn a_shared_lock_is_acquired_by_a_script() {
        let mut output = output(false);
        let text = [TOKEN, "/2047"].concat();
        let attempt = attempt("lock:a", Limit::UNLIMITED, None);
        let take = Scripts::new(false).take;
        for with_source in [false, true] {
            output.acquisition(&attempt, Token::parse(&text).unwrap(), with_source);
            let [command, script] = take.call(with_source);
            let expected = packed(&[
                command,
                script,
                "2",
                "lock:a",
                "lock:::queue:a",
                "30000",
                &text,
            ]);
            assert_eq!(written(&mut output), expected);
        }
    }

    #[test]
    fn several_locks_are_acquired_by_one_script_with_a_token_for_each() {
        let mut output = output(false);
        let attempt = attempt("lock:a", Limit::EXCLUSIVE, Some(["lock:b".into()].into()));
        output.acquisition(&attempt, Token::parse(TOKEN).unwrap(), false);
        let expected = packed(&[
            "EVALSHA",
            &Scripts::new(false).take.digest,
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
        let release = Scripts::new(false).release;
        for with_source in [false, true] {
            output.releases(&[(&names[0], token), (&names[1], token)], with_source);
            let [command, script] = release.call(with_source);
            let expected = packed(&[
                command,
                script,
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
    }

    #[test]
    fn a_release_in_a_cluster_names_a_key_that_never_exists() {
        let (mut output, token) = (output(true), Token::parse(TOKEN).unwrap());
        assert_eq!(output.max_releases(), 1);
        let name: Arc<str> = "lock:a".into();
        output.releases(&[(&name, token)], false);
        let keys = Keys::new("lock:", true).unwrap();
        let expected = packed(&[
            "EVALSHA",
            &Scripts::new(true).release.digest,
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
