//! Values in a lock's keys that no client of the library writes.

use redis::{Connection, Script};

use super::lua::{Claim, Lua, Names, ask, channel, connect};
use super::subscription::Subscription;
use lock_model::scripts;
use lock_test_support::server::Server;

const TTL: u64 = 30_000;
/// The scores of holders with one limit are a band of this width.
const BAND: f64 = 4_398_046_511_104.0;

fn claim<'a>(names: &'a Names, token: &'a str) -> Claim<'a> {
    Claim {
        names,
        token,
        ttl: TTL,
    }
}

/// What no client of the library writes about a waiter.
const UNREADABLE: [&str; 6] = [
    "",
    "x",
    "1 2",
    "-1 5 c",
    "1e99 5 c",
    "9999999999999999999 0 c",
];

#[test]
fn unreadable_waiter_is_granted_nothing() {
    let mut lab = Lab::new();
    let _heard = Subscription::open(&lab.server, &[channel("b")]);
    for data in UNREADABLE {
        assert!(lab.takes("a"));
        lab.add_unreadable_waiter(data);
        assert_eq!(lab.wait("b")[0], 2, "`{data}`");
        assert!(lab.releases("a"), "`{data}`");
        assert_eq!(lab.wait("b")[0], 3, "`{data}`");
        assert!(lab.releases("b"));
    }
}

#[test]
fn unreadable_waiter_keeps_no_other_from_entering() {
    let mut lab = Lab::new();
    for (holder, data) in UNREADABLE
        .iter()
        .flat_map(|data| [(false, data), (true, data)])
    {
        assert!(!holder || lab.takes("a/2047"));
        lab.add_unreadable_waiter(data);
        assert_eq!(
            lab.wait("b/2047")[0],
            1,
            "`{data}`, with a holder: {holder}"
        );
        assert!(lab.releases("b/2047"));
        assert!(!holder || lab.releases("a/2047"));
    }
}

/// Scores outside the bands of all limits: nothing is known of the holder, which counts as an exclusive one.
#[test]
fn holder_with_unknown_score_excludes_all_others() {
    let mut lab = Lab::new();
    let infinite = [f64::INFINITY, f64::NEG_INFINITY];
    let scores = [-1.0, 0.0, 1.0, BAND, 2048.0 * BAND, 1e300];
    for score in scores.into_iter().chain(infinite) {
        lab.add_holder(score);
        for token in ["a", "a/2", "a/2047"] {
            assert!(!lab.takes(token), "{token} beside {score}");
            let waits = lab.wait(token);
            assert_eq!(waits[0], 2, "{token} beside {score}");
        }
        lab.empty();
    }
}

/// A lease that ends between the last millisecond of a band and the next band.
#[test]
fn holder_with_fractional_score_has_the_limit_of_its_band() {
    let mut lab = Lab::new();
    lab.add_holder(3.0 * BAND - 0.5);
    assert!(!lab.takes("a"));
    assert!(lab.takes("a/2"));
    assert!(!lab.takes("b/2047"), "two have two permits");
    lab.empty();
}

/// A holder that another client added, with a lease that ends long after the key expires: a lease beside it
/// keeps the key.
#[test]
fn key_of_shared_lock_expires_after_every_new_lease() {
    for by_waiting in [false, true] {
        let mut lab = Lab::new();
        lab.add_holder(2047.5 * BAND);
        lab.expire(TTL / 10);
        let enters = match by_waiting {
            true => lab.wait("a/2047")[0] == 1,
            false => lab.takes("a/2047"),
        };
        assert!(enters, "by waiting: {by_waiting}");
        assert!(lab.left() > TTL as i64 / 2, "by waiting: {by_waiting}");
        lab.empty();
    }
}

/// One lock.
struct Lab {
    connection: Connection,
    names: Names,
    lua: Lua,
    take: Script,
    server: Server,
}

impl Lab {
    fn new() -> Self {
        let server = Server::start();
        Self {
            connection: connect(&server),
            names: Names::of("door"),
            lua: Lua::new(),
            take: Script::new(scripts::TAKE),
            server,
        }
    }

    fn add_holder(&mut self, score: f64) {
        let words = ["ZADD", &self.names.lock, &score.to_string(), "x"];
        let _: u8 = ask(&mut self.connection, &words);
    }

    fn expire(&mut self, ms: u64) {
        let words = ["PEXPIRE", &self.names.lock, &ms.to_string()];
        let _: u8 = ask(&mut self.connection, &words);
    }

    /// Returns the time in milliseconds until the key expires.
    fn left(&mut self) -> i64 {
        ask(&mut self.connection, &["PTTL", &self.names.lock])
    }

    /// Enters a waiter that is first, and whose data cannot be read.
    fn add_unreadable_waiter(&mut self, data: &str) {
        let Names { queue, waiters, .. } = &self.names;
        let _: u8 = ask(&mut self.connection, &["ZADD", queue, "0", "x"]);
        let _: u8 = ask(&mut self.connection, &["HSET", waiters, "x", data]);
    }

    fn takes(&mut self, token: &str) -> bool {
        let mut call = self.take.key(&self.names.lock);
        call.key(&self.names.queue).arg(TTL).arg(token);
        call.invoke(&mut self.connection).unwrap()
    }

    fn wait(&mut self, token: &str) -> Vec<i64> {
        let claim = claim(&self.names, token);
        self.lua.wait(&mut self.connection, &claim, 0).unwrap()
    }

    fn releases(&mut self, token: &str) -> bool {
        let claim = claim(&self.names, token);
        self.lua.release(&mut self.connection, &claim).unwrap()
    }

    fn empty(&mut self) {
        let Names {
            lock,
            queue,
            waiters,
        } = &self.names;
        let _: u8 = ask(&mut self.connection, &["DEL", lock, queue, waiters]);
    }
}
