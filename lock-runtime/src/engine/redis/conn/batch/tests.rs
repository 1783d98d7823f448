//! Steps of the machine one by one, and random sequences of them against a server in memory.

use super::*;
use crate::engine::background_release::ReleaseSupervisor;
use crate::engine::redis::conn::request::Via;
use crate::engine::request::Attempt;
use crate::engine::token::Token;
use crate::limit::Limit;
use crate::process::ProcessId;
use crate::util::backoff::fraction;
use crate::util::time::now;
use redis::{Arg, Cmd};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex};

/// What was written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Written {
    Releases(Vec<(String, Token)>),
    Acquire(String, Token),
    Command(Vec<u8>),
    Asking,
    Wait,
}

/// The bytes on their way to the server.
#[derive(Default)]
pub(crate) struct Log(pub(crate) VecDeque<Written>);

impl Encoder for Log {
    fn max_releases(&self) -> usize {
        3
    }

    fn releases(&mut self, batch: &[(&Arc<str>, Token)], _: bool) {
        let batch = batch.iter().map(|(name, token)| (name.to_string(), *token));
        self.0.push_back(Written::Releases(batch.collect()));
    }

    fn acquisition(&mut self, attempt: &Attempt, token: Token, _: bool) {
        let name = attempt.name.to_string();
        self.0.push_back(Written::Acquire(name, token));
    }

    fn command(&mut self, command: &Cmd) {
        let Some(Arg::Simple(name)) = command.args_iter().next() else {
            panic!("a command has a name");
        };
        self.0.push_back(Written::Command(name.to_vec()));
    }

    fn asking(&mut self) {
        self.0.push_back(Written::Asking);
    }

    fn wait_for_replicas(&mut self) {
        self.0.push_back(Written::Wait);
    }
}

/// A server that stores locks, and echoes commands.
#[derive(Default)]
pub(crate) struct Store {
    pub(crate) locks: HashMap<String, Token>,
    seen: HashSet<Token>,
}

impl Store {
    pub(crate) fn execute(&mut self, request: Written) -> Value {
        match request {
            Written::Releases(batch) => {
                let digit = |(name, token): (String, Token)| {
                    assert!(self.seen.contains(&token), "released before it is acquired");
                    let held = self.locks.get(&name) == Some(&token);
                    if held {
                        self.locks.remove(&name);
                    }
                    b'0' + u8::from(held)
                };
                Value::BulkString(batch.into_iter().map(digit).collect())
            }
            Written::Acquire(name, token) => {
                assert!(self.seen.insert(token), "a token is used twice");
                match self.locks.contains_key(&name) {
                    true => Value::Nil,
                    false => {
                        self.locks.insert(name, token);
                        Value::Okay
                    }
                }
            }
            Written::Command(packed) => Value::BulkString(packed),
            Written::Asking => Value::Okay,
            Written::Wait => Value::Int(2),
        }
    }
}

/// Records the ends of background releases.
#[derive(Default)]
pub(crate) struct Ends {
    pub(crate) begun: Mutex<usize>,
    pub(crate) confirmed: Mutex<Vec<(Token, bool)>>,
    pub(crate) unconfirmed: Mutex<Vec<Token>>,
}

impl ReleaseSupervisor for Ends {
    fn begun(&self) {
        *self.begun.lock().unwrap() += 1;
    }

    fn confirmed(&self, claim: &Claim, was_owner: bool, _: bool) {
        let mut confirmed = self.confirmed.lock().unwrap();
        confirmed.push((claim.token, was_owner));
    }

    fn unconfirmed(self: Arc<Self>, release: BackgroundRelease, _: bool) {
        self.unconfirmed.lock().unwrap().push(release.claim.token);
    }
}

pub(crate) fn acquire(name: &str) -> Request {
    Content::Acquire(&attempt(name)).request()
}

pub(crate) fn attempt(name: &str) -> Attempt {
    Attempt {
        is_recallable: false,
        process: ProcessId::random(),
        limit: Limit::EXCLUSIVE,
        waits: false,
        name: name.into(),
        ttl: Duration::from_secs(30),
        replicas: 0,
        others: None,
    }
}

pub(crate) fn command(name: &[u8]) -> Request {
    Request::Command(command_of(name))
}

pub(crate) fn command_of(name: &[u8]) -> Arc<Cmd> {
    let mut command = Cmd::new();
    command.arg(name);
    Arc::new(command)
}

/// Slots with their connection and server.
struct Bench {
    slots: Slots,
    log: Log,
    store: Store,
    replies: VecDeque<Value>,
    effects: Effects,
    ends: Arc<Ends>,
    start: Instant,
}

impl Bench {
    fn new() -> Bench {
        Bench {
            slots: Slots::default(),
            log: Log::default(),
            store: Store::default(),
            replies: VecDeque::new(),
            effects: Effects::default(),
            ends: Arc::default(),
            start: now(),
        }
    }

    fn put(&mut self, request: Request) -> usize {
        let deadline = self.start + Duration::from_secs(5);
        let delivery = Delivery::default();
        self.slots.put(request, delivery, deadline).unwrap()
    }

    fn background(&self, claim: Claim) -> BackgroundRelease {
        BackgroundRelease::new(claim, false, self.ends.clone())
    }

    fn write(&mut self) -> Vec<Written> {
        let before = self.log.0.len();
        let draws: Vec<_> = (0..self.slots.unsent_acquisitions())
            .map(|_| Draw::now())
            .collect();
        self.slots.write(draws, &mut self.log, now);
        self.log.0.iter().skip(before).cloned().collect()
    }

    /// Lets the server execute what has been written.
    fn execute(&mut self) {
        while let Some(request) = self.log.0.pop_front() {
            self.replies.push_back(self.store.execute(request));
        }
    }

    fn read(&mut self) {
        while let Some(reply) = self.replies.pop_front() {
            self.reply(reply);
        }
    }

    fn reply(&mut self, reply: Value) {
        self.slots
            .take_reply(reply, now(), &mut self.effects)
            .unwrap();
        self.effects.perform();
    }

    fn run(&mut self) {
        loop {
            self.write();
            self.execute();
            self.read();
            if !self.slots.has_unsent() {
                return;
            }
        }
    }

    fn poll(&mut self, at: usize) -> Poll<Outcome> {
        self.slots.poll(at, &mut Some(Waker::noop().clone()))
    }

    /// Leaves a request, and releases what it may have acquired.
    fn leave(&mut self, at: usize) {
        for claim in self.slots.leave(at).0 {
            let release = self.background(claim);
            if let Err(release) = self.slots.put_background(release) {
                release.hand_over(false);
            }
        }
    }

    fn end(&mut self) {
        self.slots.end(&mut self.effects);
        self.effects.perform();
    }
}

fn reply(value: Value) -> Poll<Outcome> {
    Poll::Ready(Outcome::Reply(value, None))
}

fn text(text: &[u8]) -> Value {
    Value::BulkString(text.to_vec())
}

#[test]
fn replies_belong_to_requests_in_the_order_of_writing() {
    let mut bench = Bench::new();
    let [a, b] = [b"a", b"b"].map(|packed| bench.put(command(packed)));
    assert!(bench.poll(a).is_pending());
    bench.run();
    assert_eq!(bench.poll(b), reply(text(b"b")));
    assert_eq!(bench.poll(a), reply(text(b"a")));
    assert_eq!(bench.slots.in_use(), 0);
}

#[test]
fn a_lone_task_with_a_background_release_is_known_to_be_alone() {
    let mut bench = Bench::new();
    let held = bench.put(acquire("row"));
    assert!(!bench.slots.expects_more());
    bench.run();
    let other = bench.put(acquire("other"));
    assert!(bench.slots.expects_more(), "one takes its reply next");
    bench.leave(held);
    assert!(!bench.slots.expects_more(), "a release and an acquisition");
    bench.leave(other);
    assert!(!bench.slots.expects_more());
}

#[test]
fn a_portion_is_written_without_waiting_for_more() {
    let mut bench = Bench::new();
    bench.put(acquire("other"));
    bench.write();
    for n in 1..PORTION {
        bench.put(acquire(&n.to_string()));
        assert_eq!(bench.slots.wakes_driver(), n == 1);
        assert!(bench.slots.expects_more());
    }
    bench.put(acquire("row"));
    assert!(bench.slots.wakes_driver());
    assert!(!bench.slots.expects_more());
}

#[test]
fn releases_are_written_first_and_in_batches() {
    let mut bench = Bench::new();
    bench.put(command(b"c"));
    let held: Vec<_> = (0..4).map(|n| bench.put(acquire(&n.to_string()))).collect();
    bench.run();
    for at in held {
        assert!(matches!(
            bench.poll(at),
            Poll::Ready(Outcome::Reply(Value::Okay, Some(_)))
        ));
    }
    bench.put(acquire("0"));
    for (name, token) in bench.store.locks.clone() {
        let name = (*name).into();
        bench.put(Request::Release { name, token });
    }
    let written = bench.write();
    let sizes = written.iter().map(|written| match written {
        Written::Releases(batch) => batch.len(),
        _ => 0,
    });
    assert_eq!(sizes.collect::<Vec<_>>(), [3, 1, 0]);
    bench.execute();
    assert_eq!(bench.replies.pop_back(), Some(Value::Okay));
}

#[test]
fn half_of_many_requests_are_written_to_an_idle_server() {
    let mut bench = Bench::new();
    let SplitThreshold(many) = bench.slots.split_at;
    let mut put = |count: usize| {
        let put = |n: usize| bench.put(acquire(&n.to_string()));
        let slots: Vec<_> = (0..count).map(put).collect();
        let first = bench.write().len();
        // A driver that has more to write sleeps only after that.
        assert_eq!(bench.slots.wakes_driver(), first == count);
        let second = bench.write().len();
        assert!(!bench.slots.has_unsent());
        bench.execute();
        bench.read();
        for slot in slots {
            assert!(bench.poll(slot).is_ready());
        }
        (first, second)
    };
    assert_eq!(put(many - 1), (many - 1, 0));
    assert_eq!(put(many + 1), (many / 2 + 1, many / 2));
    // The server is busy with the first half.
    bench.put(command(b"c"));
    bench.write();
    for n in 0..many {
        bench.put(acquire(&n.to_string()));
    }
    assert_eq!(bench.write().len(), many);
}

#[test]
fn the_half_that_is_written_first_came_first() {
    let mut bench = Bench::new();
    let SplitThreshold(many) = bench.slots.split_at;
    for n in 0..many {
        let claim = attempt(&n.to_string()).claim(Token::random());
        let release = bench.background(claim);
        assert!(bench.slots.put_background(release).is_ok());
        bench.put(acquire(&n.to_string()));
    }
    for half in [0..many / 2, many / 2..many] {
        let written = bench.write();
        let is_acquisition = |written: &&Written| matches!(written, Written::Acquire(..));
        assert_eq!(written.iter().filter(is_acquisition).count(), half.len());
        // Each after the release of its lock.
        let names = written.into_iter().flat_map(|written| match written {
            Written::Releases(batch) => batch.into_iter().map(|(name, _)| name).collect(),
            Written::Acquire(name, _) => vec![name],
            other => panic!("{other:?}"),
        });
        let expected: Vec<_> = half.map(|n| n.to_string()).collect();
        assert_eq!(
            names.collect::<Vec<_>>(),
            [expected.clone(), expected].concat()
        );
    }
}

#[test]
fn an_unsent_request_that_is_left_is_never_written() {
    let mut bench = Bench::new();
    let [left, stays] = [bench.put(acquire("a")), bench.put(acquire("b"))];
    bench.leave(left);
    assert!(matches!(&bench.write()[..], [Written::Acquire(name, _)] if name == "b"));
    bench.execute();
    bench.read();
    assert!(matches!(
        bench.poll(stays),
        Poll::Ready(Outcome::Reply(Value::Okay, Some(_)))
    ));
    assert_eq!(*bench.ends.begun.lock().unwrap(), 0);
}

#[test]
fn a_written_acquisition_that_is_left_is_released_behind_it() {
    let mut bench = Bench::new();
    let left = bench.put(acquire("a"));
    bench.write();
    bench.leave(left);
    // Its slot is not used again before its reply has come.
    assert_ne!(bench.put(command(b"c")), left);
    bench.run();
    assert!(bench.store.locks.is_empty());
    assert_eq!(bench.ends.confirmed.lock().unwrap().len(), 1);
}

#[test]
fn a_grant_that_is_not_taken_is_released() {
    let mut bench = Bench::new();
    let left = bench.put(acquire("a"));
    bench.run();
    bench.leave(left);
    bench.run();
    assert!(bench.store.locks.is_empty());
    let refused = [bench.put(acquire("b")), bench.put(acquire("b"))];
    bench.run();
    refused.into_iter().for_each(|at| bench.leave(at));
    bench.run();
    assert!(bench.store.locks.is_empty());
    // The second of them was refused, and needs none.
    assert_eq!(*bench.ends.begun.lock().unwrap(), 2);
}

#[test]
fn replies_to_expired_requests_do_not_slip() {
    let mut bench = Bench::new();
    let late = bench.put(command(b"late"));
    let acquisition = bench.put(acquire("a"));
    bench.write();
    let after = bench.start + Duration::from_secs(6);
    assert!(bench.slots.expire(after, &mut bench.effects));
    for at in [late, acquisition] {
        assert_eq!(bench.poll(at), Poll::Ready(Outcome::Expired));
        bench.leave(at);
    }
    let next = bench.put(command(b"next"));
    bench.run();
    assert_eq!(bench.poll(next), reply(text(b"next")));
    assert!(bench.store.locks.is_empty());
    assert_eq!(bench.slots.in_use(), 0);
}

#[test]
fn the_end_of_a_connection_decides_every_request() {
    let mut bench = Bench::new();
    let sent = [bench.put(acquire("a")), bench.put(command(b"c"))];
    let left = bench.put(acquire("b"));
    bench.write();
    bench.leave(left);
    let unsent = bench.put(acquire("d"));
    bench.end();
    for at in sent {
        assert_eq!(bench.poll(at), Poll::Ready(Outcome::NoReply));
        bench.leave(at);
    }
    assert_eq!(bench.poll(unsent), Poll::Ready(Outcome::NotSent));
    bench.leave(unsent);
    // The releases of `a` and `b`.
    assert_eq!(bench.ends.unconfirmed.lock().unwrap().len(), 2);
    let late = bench
        .slots
        .put(acquire("e"), Delivery::default(), bench.start);
    assert!(late.is_none());
    assert_eq!(bench.slots.in_use(), 0);
}

#[test]
fn replicas_reply_after_the_commands() {
    let mut bench = Bench::new();
    let delivery = Delivery {
        via: Via::Replicas(1),
        asking: true,
        ..Delivery::default()
    };
    let deadline = bench.start + Duration::from_secs(5);
    let at = bench.slots.put(acquire("a"), delivery, deadline).unwrap();
    let other = bench.put(command(b"c"));
    let [
        Written::Asking,
        Written::Acquire(..),
        Written::Command(_),
        Written::Wait,
    ] = &bench.write()[..]
    else {
        panic!("not written in order")
    };
    bench.execute();
    for _ in 0..3 {
        let reply = bench.replies.pop_front().unwrap();
        bench.reply(reply);
    }
    assert_eq!(bench.poll(other), reply(text(b"c")));
    assert!(bench.poll(at).is_pending());
    bench.read();
    let Poll::Ready(Outcome::Reply(Value::Array(both), Some(_))) = bench.poll(at) else {
        panic!("no pair")
    };
    assert_eq!(both, [Value::Okay, Value::Int(2)]);
}

#[test]
fn a_failed_script_leaves_every_release_unconfirmed() {
    let mut bench = Bench::new();
    for name in ["a", "b"] {
        let release = bench.background(attempt(name).claim(Token::random()));
        assert!(bench.slots.put_background(release).is_ok());
    }
    bench.write();
    let error = redis::parse_redis_value(b"-NOSCRIPT No matching script\r\n").unwrap();
    bench.reply(error);
    assert_eq!(bench.ends.unconfirmed.lock().unwrap().len(), 2);
    assert_eq!(bench.slots.in_use(), 0);
}

#[test]
fn replies_without_a_request_are_refused() {
    let mut bench = Bench::new();
    let taken = |bench: &mut Bench, value| {
        bench
            .slots
            .take_reply(value, now(), &mut Effects::default())
    };
    assert!(taken(&mut bench, Value::Okay).is_err());
    let release = bench.background(attempt("a").claim(Token::random()));
    assert!(bench.slots.put_background(release).is_ok());
    bench.write();
    assert!(taken(&mut bench, text(b"11")).is_err());
    // The supervisor still learns of it.
    bench.end();
    assert_eq!(bench.ends.unconfirmed.lock().unwrap().len(), 1);
}

#[test]
fn silence_counts_from_the_last_reply() {
    let mut bench = Bench::new();
    let later = |seconds| bench.start + Duration::from_secs(seconds);
    let times = [10, 20, 30].map(later);
    assert!(bench.slots.silence(times[2]).is_zero());
    bench.put(command(b"a"));
    bench.put(command(b"b"));
    bench.write();
    assert!(bench.slots.silence(times[0]) > Duration::from_secs(9));
    bench.execute();
    let reply = bench.replies.pop_front().unwrap();
    let mut effects = Effects::default();
    bench
        .slots
        .take_reply(reply, times[0], &mut effects)
        .unwrap();
    assert_eq!(bench.slots.silence(times[1]), Duration::from_secs(10));
    bench.read();
    assert!(bench.slots.silence(times[2]).is_zero());
}

fn below(most: usize) -> usize {
    fraction(Duration::from_nanos(most as u64)).as_nanos() as usize % most
}

/// A caller of the random test, and what it knows.
enum Caller {
    Command(usize, Vec<u8>),
    Acquire(usize, String),
}

/// Callers come and leave, requests are written, carried out, get their replies and expire, and the
/// connection ends.
#[test]
fn no_order_of_steps_loses_a_lock_or_swaps_a_reply() {
    let (mut granted, mut left_behind, mut broken) = (0, 0, 0);
    for round in 0..3_000_usize {
        let mut bench = Bench::new();
        bench.slots.split_at = SplitThreshold(2);
        let mut callers: Vec<Caller> = Vec::new();
        let mut held: Vec<Claim> = Vec::new();
        let mut next = round;
        for _ in 0..80 {
            match below(12) {
                0 | 1 => {
                    next += 1;
                    let packed = next.to_string().into_bytes();
                    callers.push(Caller::Command(bench.put(command(&packed)), packed));
                }
                2..=4 => {
                    let name = ["a", "b", "c", "d"][below(4)];
                    callers.push(Caller::Acquire(bench.put(acquire(name)), name.to_owned()));
                }
                5 if !held.is_empty() => {
                    let claim = held.swap_remove(below(held.len()));
                    let release = bench.background(claim);
                    assert!(bench.slots.put_background(release).is_ok());
                }
                6 => drop(bench.write()),
                7 => {
                    if let Some(request) = bench.log.0.pop_front() {
                        let reply = bench.store.execute(request);
                        bench.replies.push_back(reply);
                    }
                }
                8 => {
                    if let Some(reply) = bench.replies.pop_front() {
                        bench.reply(reply);
                    }
                }
                9 if !callers.is_empty() => {
                    let (Caller::Command(at, _) | Caller::Acquire(at, _)) =
                        callers.swap_remove(below(callers.len()));
                    bench.leave(at);
                    left_behind += 1;
                }
                10 if below(8) == 0 => {
                    let after = bench.start + Duration::from_secs(6);
                    bench.slots.expire(after, &mut bench.effects);
                    bench.effects.perform();
                }
                _ => {
                    let mut waiting = Vec::new();
                    for caller in callers {
                        granted +=
                            usize::from(collect(&mut bench, caller, &mut waiting, &mut held));
                    }
                    callers = waiting;
                }
            }
        }
        let breaks = below(2) == 0;
        if breaks {
            broken += 1;
            bench.end();
            // Part of what was on its way may still be executed.
            for _ in 0..below(10) {
                if let Some(request) = bench.log.0.pop_front() {
                    bench.store.execute(request);
                }
            }
        }
        for caller in callers {
            let (Caller::Command(at, _) | Caller::Acquire(at, _)) = caller;
            bench.leave(at);
        }
        if !breaks {
            bench.run();
        }
        assert_eq!(bench.slots.in_use(), 0);
        let ends = &bench.ends;
        let unconfirmed = ends.unconfirmed.lock().unwrap();
        let confirmed = ends.confirmed.lock().unwrap().len();
        assert_eq!(*ends.begun.lock().unwrap(), confirmed + unconfirmed.len());
        for token in bench.store.locks.values() {
            let known = held.iter().any(|claim| claim.token == *token);
            assert!(
                known || unconfirmed.contains(token),
                "a lock is left behind"
            );
        }
        for claim in &held {
            assert_eq!(bench.store.locks.get(&*claim.name), Some(&claim.token));
        }
    }
    assert!(granted > 1_000 && left_behind > 1_000 && broken > 1_000);
}

/// Polls a caller's request. Returns `true` if it acquired a lock.
fn collect(
    bench: &mut Bench,
    caller: Caller,
    waiting: &mut Vec<Caller>,
    held: &mut Vec<Claim>,
) -> bool {
    let (Caller::Command(at, _) | Caller::Acquire(at, _)) = &caller;
    let at = *at;
    match (bench.poll(at), caller) {
        (Poll::Pending, caller) => waiting.push(caller),
        (Poll::Ready(Outcome::Reply(value, None)), Caller::Command(_, packed)) => {
            assert_eq!(value, Value::BulkString(packed));
        }
        (Poll::Ready(Outcome::Reply(value, Some(token))), Caller::Acquire(_, name)) => {
            if value == Value::Okay {
                held.push(attempt(&name).claim(token));
                return true;
            }
            assert_eq!(value, Value::Nil);
        }
        (Poll::Ready(Outcome::Expired), _) => bench.leave(at),
        (Poll::Ready(outcome), _) => panic!("{outcome:?}"),
    }
    false
}
