//! Plays steps of clients named by letters against one lock on a real server; each step states its expected
//! result.

use std::collections::HashMap;

use redis::Connection;

use super::lua::{Claim, Lua, Names, TOMBSTONE, WOKEN, ask, channel, connect, tombstone};
use super::subscription::Subscription;
use lock_test_support::server::Server;

#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// `SET NX PX`; `true` if it acquires the lock.
    Acquires(char, bool),
    Waits(char, Answer),
    /// Waits with its own TTL in milliseconds.
    WaitsFor(char, u64, Answer),
    /// A wait that is void after this many milliseconds from now.
    WaitsVoidAfter(char, i64, Answer),
    /// `true` if the client held the lock.
    Releases(char, bool),
    Cancels(char, bool),
    /// Cancels while a request of the client is still in flight.
    CancelsUnanswered(char, bool),
    /// The client received a grant with this lease in milliseconds.
    Granted(char, u64),
    /// The client was notified that it is no longer alone in the queue.
    NotifiedOfOthers(char),
    /// The client was notified that it is first in the queue.
    NotifiedFirst(char),
    /// The client was woken because the lock is free.
    Woken(char),
    /// No client received any other message, except perhaps that it is first.
    NoOtherMessage,
    Holder(char),
    Free,
    /// No client holds the lock, and only the first in the queue can acquire it.
    Reserved,
    /// The waiters in order.
    Queue(&'static str),
    /// Bounds of the remaining lease in milliseconds.
    Lease(u64, u64),
    LeaseIsCutTo(u64),
    /// The lease expires, or a client that does not use queues deletes the lock.
    Expires,
    /// The client has not polled for longer than it counts as alive.
    StopsPolling(char),
    /// The time that woken waiters have to poll is over, and so is the reservation.
    WakeExpires,
    /// As `WakeExpires`, while this client holds the lock.
    WakeExpiresFor(char),
    /// The client's process ends, and its subscription with it.
    Disconnects(char),
    Forgets(char),
    MemoryIsFull,
    MemoryIsFree,
}

use Step::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Acquired,
    Holds,
    /// The number of waiters ahead, and the length of the queue.
    IsQueued(i64, i64),
    Void,
}

pub struct Trace {
    pub names: Names,
    pub connection: Connection,
    lua: Lua,
    subscriptions: HashMap<char, Subscription>,
    messages: HashMap<char, Vec<String>>,
    /// Clients notified that they are first, since this was last read.
    firsts: Vec<char>,
    pub server: Server,
}

pub const TTL: u64 = 30_000;
/// By how many milliseconds keys outlast leases and reservations.
pub const GRACE: u64 = 500;

/// Plays the steps on a new server, whose time hardly passes.
pub fn play(steps: &[Step]) {
    let mut trace = Trace::new(Server::slow(), "door");
    trace.play(steps);
    trace.leave();
}

impl Trace {
    pub fn new(server: Server, key: &str) -> Self {
        let subscriptions = ('a'..='d')
            .map(|client| {
                (
                    client,
                    Subscription::open(&server, &[channel(&client.to_string())]),
                )
            })
            .collect();
        Self {
            names: Names::of(key),
            connection: connect(&server),
            lua: Lua::new(),
            subscriptions,
            messages: HashMap::new(),
            firsts: Vec::new(),
            server,
        }
    }

    pub fn play(&mut self, steps: &[Step]) {
        for (number, step) in steps.iter().enumerate() {
            if let Err(wrong) = self.step(*step) {
                let before = &steps[..number];
                panic!("{step:?}: {wrong}\nafter {before:?}");
            }
        }
    }

    /// Cancels all clients, so that the server is left empty, as its drop requires.
    pub fn leave(&mut self) {
        for client in 'a'..='d' {
            self.cancel(client, 0);
        }
        self.step(Free).unwrap();
        self.step(Queue("")).unwrap();
    }

    fn step(&mut self, step: Step) -> Result<(), String> {
        match step {
            Acquires(client, expected) => {
                let ttl = TTL.to_string();
                let words = [
                    "SET",
                    &self.names.lock,
                    &client.to_string(),
                    "NX",
                    "PX",
                    &ttl,
                ];
                let answer: Option<String> = ask(&mut self.connection, &words);
                same(answer.is_some(), expected)
            }
            Waits(client, expected) => self.wait(client, TTL, 0, expected),
            WaitsFor(client, ttl, expected) => self.wait(client, ttl, 0, expected),
            WaitsVoidAfter(client, milliseconds, expected) => {
                let (seconds, micros): (i64, i64) = ask(&mut self.connection, &["TIME"]);
                let void_after = seconds * 1_000_000 + micros + milliseconds * 1000;
                self.wait(client, TTL, void_after as u64, expected)
            }
            Releases(client, expected) => {
                let token = client.to_string();
                let claim = claim(&self.names, &token, TTL);
                let released = self.lua.release(&mut self.connection, &claim);
                same(released.map_err(|e| e.to_string())?, expected)
            }
            Cancels(client, expected) => same(self.cancel(client, 0), expected),
            CancelsUnanswered(client, expected) => same(self.cancel(client, TOMBSTONE), expected),
            Granted(client, lease) => {
                let words = self.next_news(client)?;
                let mut words = words.splitn(5, ' ');
                same(words.next(), Some("grant"))?;
                same(words.next(), Some(&*client.to_string()))?;
                let at: u64 = words.next().unwrap().parse().unwrap();
                let (seconds, _): (u64, u64) = ask(&mut self.connection, &["TIME"]);
                same(seconds.abs_diff(at / 1_000_000) <= 2, true)?;
                same(words.next(), Some(&*lease.to_string()))?;
                same(words.next(), Some(&*self.names.lock))
            }
            NotifiedOfOthers(client) => same(self.next_news(client)?, format!("others {client}")),
            Woken(client) => same(self.next_news(client)?, format!("free {client}")),
            NotifiedFirst(client) => {
                self.listen(client);
                same(self.firsts.drain(..).collect(), vec![client])
            }
            NoOtherMessage => {
                for client in 'a'..='d' {
                    self.listen(client);
                    same(self.messages.entry(client).or_default(), &mut Vec::new())?;
                }
                Ok(())
            }
            Holder(client) => same(self.holder(), Some(client.to_string())),
            Free => same(self.holder(), None),
            Reserved => {
                same(self.holder().as_deref(), Some("::reserved"))?;
                self.step(Lease(1, WOKEN / 1000 + 10 + GRACE))
            }
            Queue(expected) => {
                let names = &self.names;
                let range = ["ZRANGE", &*names.queue, "0", "-1"];
                let queue: Vec<String> = ask(&mut self.connection, &range);
                same(&*queue.concat(), expected)?;
                // The hash has no other waiters.
                let known: usize = ask(&mut self.connection, &["HLEN", &names.waiters]);
                same(known, queue.len())
            }
            Lease(least, most) => {
                let left: u64 = ask(&mut self.connection, &["PTTL", &self.names.lock]);
                match (least..=most).contains(&left) {
                    true => Ok(()),
                    false => Err(format!("the remaining lease is {left} ms")),
                }
            }
            LeaseIsCutTo(left) => {
                let words = ["PEXPIRE", &self.names.lock, &left.to_string()];
                same(ask(&mut self.connection, &words), true)
            }
            Expires => same(ask(&mut self.connection, &["DEL", &self.names.lock]), true),
            StopsPolling(client) => {
                let waiters = &self.names.waiters;
                let waiter = ask(
                    &mut self.connection,
                    &["HGET", waiters, &client.to_string()],
                );
                self.is_silent(&client.to_string(), waiter)
            }
            WakeExpires => {
                self.step(Expires)?;
                self.end_chances()
            }
            WakeExpiresFor(client) => {
                self.end_chances()?;
                self.step(Holder(client))
            }
            Disconnects(client) => {
                self.subscriptions.remove(&client);
                let channel = channel(&client.to_string());
                self.server.until_deaf(&channel);
                Ok(())
            }
            Forgets(client) => {
                let tombstone = tombstone(&client.to_string());
                same(ask(&mut self.connection, &["DEL", &tombstone]), true)
            }
            MemoryIsFull => {
                let _: () = ask(&mut self.connection, &["CONFIG", "SET", "maxmemory", "1"]);
                let full = redis::cmd("SET")
                    .arg("x")
                    .arg("x")
                    .exec(&mut self.connection);
                same(full.unwrap_err().code(), Some("OOM"))
            }
            MemoryIsFree => {
                let _: () = ask(&mut self.connection, &["CONFIG", "SET", "maxmemory", "0"]);
                Ok(())
            }
        }
    }

    fn is_silent(&mut self, client: &str, waiter: String) -> Result<(), String> {
        let (_, rest) = waiter.split_once(' ').unwrap();
        let silent = format!("1700000000000000 {rest}");
        let words = ["HSET", &self.names.waiters, client, &silent];
        same(ask(&mut self.connection, &words), 0)
    }

    fn end_chances(&mut self) -> Result<(), String> {
        let (seconds, _): (u64, u64) = ask(&mut self.connection, &["TIME"]);
        let known = ask(&mut self.connection, &["HGETALL", &self.names.waiters]);
        let known: HashMap<String, String> = known;
        for (client, waiter) in known {
            let alive: u64 = waiter.split_once(' ').unwrap().0.parse().unwrap();
            if alive < (seconds + 1) * 1_000_000 + WOKEN {
                self.is_silent(&client, waiter)?;
            }
        }
        Ok(())
    }

    fn wait(
        &mut self,
        client: char,
        ttl: u64,
        void_after: u64,
        expected: Answer,
    ) -> Result<(), String> {
        let token = client.to_string();
        let claim = claim(&self.names, &token, ttl);
        let answer = self.lua.wait(&mut self.connection, &claim, void_after);
        let answer = match answer.map_err(|error| error.to_string())?[..] {
            [0] => Answer::Void,
            [1, left] if left == ttl as i64 => Answer::Acquired,
            [3, _] => Answer::Holds,
            [2, _, _, ahead, length] => Answer::IsQueued(ahead, length),
            ref other => return Err(format!("the answer is {other:?}")),
        };
        same(answer, expected)
    }

    fn cancel(&mut self, client: char, tombstone: u64) -> bool {
        let token = client.to_string();
        let claim = claim(&self.names, &token, TTL);
        self.lua
            .cancel(&mut self.connection, &claim, tombstone)
            .unwrap()
    }

    fn holder(&mut self) -> Option<String> {
        ask(&mut self.connection, &["GET", &self.names.lock])
    }

    fn next_news(&mut self, client: char) -> Result<String, String> {
        self.listen(client);
        let messages = self.messages.entry(client).or_default();
        if messages.is_empty() {
            return Err(format!("`{client}` received no message"));
        }
        Ok(messages.remove(0))
    }

    fn listen(&mut self, client: char) {
        if let Some(subscription) = self.subscriptions.get_mut(&client) {
            for (_, text) in subscription.heard() {
                match text == format!("first {client}") {
                    true => self.firsts.push(client),
                    false => self.messages.entry(client).or_default().push(text),
                }
            }
        }
    }
}

fn claim<'a>(names: &'a Names, token: &'a str, ttl: u64) -> Claim<'a> {
    Claim { names, token, ttl }
}

fn same<T: PartialEq + std::fmt::Debug>(found: T, expected: T) -> Result<(), String> {
    match found == expected {
        true => Ok(()),
        false => Err(format!("{found:?} instead of {expected:?}")),
    }
}
