//! A real server that replays traces.

use crate::resp_client::{Value, Wire};
use crate::scenario::{Step, Trace};
use crate::scripts::Scripts;
use crate::server::{Answer, Command, News, PROCESSES, Place, Rules, Tick, Token, UNLIMITED};
use std::path::Path;
use std::time::{Duration, Instant};

/// A tick, in milliseconds. No test waits for one to pass: everything is aged instead.
const TICK: u64 = 10_000;

/// The number of traces that are sent at once, each with a lock of its own.
const BATCH: usize = 64;

pub struct RealServer {
    wire: Wire,
    /// The connection that receives the messages of all processes.
    ear: Wire,
    scripts: Scripts,
    traces: Vec<Trace>,
    locks: usize,
    last_fencing_token: i64,
}

/// Returns the channel of a process.
fn channel(process: usize) -> String {
    format!("lock:::grants:{process}")
}

impl RealServer {
    /// Connects to the server at `socket`.
    pub fn open(socket: &Path) -> Self {
        let mut wire = Wire::open(socket);
        let mut ear = Wire::open(socket);
        for process in 0..PROCESSES {
            ear.ask(&["SUBSCRIBE", &channel(process)]);
        }
        RealServer {
            scripts: Scripts::load(&mut wire),
            wire,
            ear,
            traces: Vec::new(),
            locks: 0,
            last_fencing_token: 0,
        }
    }

    /// Queues a trace; it is played with the next batch.
    pub fn play(&mut self, trace: Trace) {
        self.traces.push(trace);
        if self.traces.len() == BATCH {
            self.play_all();
        }
    }

    pub fn end(mut self) {
        self.play_all();
    }

    /// Returns the first difference between the server and the trace, if there is one.
    pub fn difference(&mut self, trace: Trace) -> Option<String> {
        self.play_all();
        self.in_time(&[trace]).err()
    }

    fn play_all(&mut self) {
        let traces = std::mem::take(&mut self.traces);
        if let Err(difference) = self.in_time(&traces) {
            panic!("{difference}");
        }
    }

    fn in_time(&mut self, traces: &[Trace]) -> Result<(), String> {
        loop {
            let began = Instant::now();
            let played = self.play_at_once(traces);
            // If the server stalled, the locks of the traces may have run out.
            if began.elapsed() < Duration::from_secs(1) {
                return played;
            }
        }
    }

    fn play_at_once(&mut self, traces: &[Trace]) -> Result<(), String> {
        let time = self.wire.ask(&["TIME"]).list();
        let opened = time[0].number() * 1_000_000 + time[1].number();
        let first = self.locks;
        self.locks += traces.len();
        let doors: Vec<_> = (first..self.locks)
            .zip(traces)
            .map(|(number, trace)| Door::new(number, opened, trace.rules))
            .collect();
        for ((n, trace), door) in traces.iter().enumerate().zip(&doors) {
            self.say_all(trace, door, seen(traces, n));
        }
        self.wire.send();
        let mut difference = Ok(());
        for ((n, trace), door) in traces.iter().enumerate().zip(&doors) {
            let seen = seen(traces, n);
            for (n, step) in trace.steps.iter().enumerate() {
                let answer = self.wire.hear();
                let sight = (n >= seen).then(|| self.wire.hear());
                // Read the reply in any case.
                if difference.is_ok() {
                    let same = self
                        .check_answer(door, step, &answer)
                        .and_then(|()| sight.map_or(Ok(()), |sight| door.check_sight(step, sight)));
                    difference = same.map_err(|it| format!("{it}: {}", trace.so_far(n + 1)));
                }
            }
        }
        let heard = self.heard();
        difference?;
        let mut heard = heard.into_iter();
        for (trace, door) in traces.iter().zip(&doors) {
            let published = trace.steps.iter().flat_map(|step| &step.published);
            let published: Vec<_> = published.map(|news| door.text_of(*news)).collect();
            let heard: Result<Vec<_>, _> = heard
                .by_ref()
                .take(published.len())
                .map(|it| door.read(it))
                .collect();
            same("the message", heard?, published).map_err(|it| format!("{it}: {trace:?}"))?;
        }
        same("the next message", heard.next(), None)
    }

    /// Returns the messages received so far, each with its channel.
    fn heard(&mut self) -> Vec<(String, String)> {
        self.ear.say(&["PING"]);
        self.ear.send();
        let mut heard = Vec::new();
        loop {
            let mut words = self.ear.hear().list().into_iter().map(Value::text);
            match (words.next().as_deref(), words.next(), words.next()) {
                (Some("message"), Some(channel), Some(text)) => heard.push((channel, text)),
                _ => return heard,
            }
        }
    }

    fn say_all(&mut self, trace: &Trace, door: &Door, seen: usize) {
        let mut saying = Saying::new(trace.rules);
        for (n, step) in trace.steps.iter().enumerate() {
            self.say(door, step, &mut saying);
            if n >= seen {
                let [lock, queue, waiters] = &door.keys;
                let look = ["EVALSHA", &self.scripts.look, "3", lock, queue, waiters];
                self.wire.say(&look);
            }
            saying.now = step.server.now;
        }
    }

    fn say(&mut self, door: &Door, step: &Step, saying: &mut Saying) {
        let [lock, queue, waiters] = &door.keys;
        let token = &door.name_of(step.token);
        let tombstone = &door.tombstone(step.token);
        let ttl = &(u64::from(saying.rules.ttl) * TICK).to_string();
        // The middle of a tick: a millisecond more or less does not change the tick.
        let middle = |ticks: Tick| (u64::from(ticks) * TICK).saturating_sub(TICK / 2);
        let (scripts, wire) = (&self.scripts, &mut self.wire);
        match step.command {
            Command::Take if saying.rules.limit(step.token) > 1 => {
                wire.say(&["EVALSHA", &scripts.take, "2", lock, queue, ttl, token]);
            }
            Command::Take => wire.say(&["SET", lock, token, "NX", "PX", ttl]),
            Command::Downgrade => {
                let shares = &door.name_of(Token(step.token.0 + 1));
                wire.say(&[
                    "EVALSHA",
                    &scripts.downgrade,
                    "3",
                    lock,
                    queue,
                    waiters,
                    token,
                    shares,
                    ttl,
                ]);
            }
            Command::Wait(void_after) => {
                let later = (i64::from(void_after) - i64::from(saying.now)) * TICK as i64;
                let void = match void_after {
                    0 => 0,
                    _ => door.opened + (later + TICK as i64 / 2) * 1000,
                };
                let process = step.token.process();
                let channel = match saying.dead[process] {
                    false => &channel(process),
                    true => "nowhere",
                };
                let alive = &(middle(saying.rules.alive) * 1000).to_string();
                let wake = &(middle(saying.rules.wake) * 1000).to_string();
                let void = &void.to_string();
                wire.say(&[
                    "EVALSHA",
                    &scripts.wait,
                    "4",
                    lock,
                    queue,
                    waiters,
                    tombstone,
                    token,
                    ttl,
                    channel,
                    alive,
                    wake,
                    void,
                ]);
            }
            Command::Renew => wire.say(&["EVALSHA", &scripts.renew, "1", lock, token, ttl]),
            Command::Fence => {
                wire.say(&["EVALSHA", &scripts.fence, "2", lock, "lock:::fence", token]);
            }
            Command::Release => {
                wire.say(&[
                    "EVALSHA",
                    &scripts.release,
                    "3",
                    lock,
                    queue,
                    waiters,
                    token,
                ]);
            }
            Command::Cancel | Command::CancelWithTombstone => {
                let stands = match step.command {
                    Command::CancelWithTombstone => &middle(saying.rules.tombstone).to_string(),
                    _ => "0",
                };
                saying.buried.push(step.token);
                wire.say(&[
                    "EVALSHA",
                    &scripts.cancel,
                    "4",
                    lock,
                    queue,
                    waiters,
                    tombstone,
                    token,
                    stands,
                ]);
            }
            Command::Expire => wire.say(&["DEL", lock]),
            Command::Pass(ticks) => {
                let buried = saying.buried.iter().map(|token| door.tombstone(*token));
                let buried: Vec<_> = buried.collect();
                let keys = (3 + buried.len()).to_string();
                let time = (u64::from(ticks) * TICK).to_string();
                let mut words = vec!["EVALSHA", &scripts.pass, &keys, lock, queue, waiters];
                words.extend(buried.iter().map(String::as_str));
                words.push(&time);
                wire.say(&words);
            }
            Command::Disconnect => {
                let process = step.token.process();
                saying.dead[process] = true;
                let tokens = (0..).map_while(|attempt| Token::nth(process, attempt));
                let tokens: Vec<_> = tokens.map(|token| door.name_of(token)).collect();
                let mut words = vec!["EVALSHA", &scripts.die, "1", waiters];
                words.extend(tokens.iter().map(String::as_str));
                wire.say(&words);
            }
        }
    }

    fn check_answer(&mut self, door: &Door, step: &Step, answer: &Value) -> Result<(), String> {
        let found = match step.command {
            Command::Wait(_) => door.standing(answer, step.server.now)?,
            Command::Fence if *answer == Value::Nil => Answer::Fence(None),
            Command::Fence => {
                let token = answer.number();
                same("it grows", token > self.last_fencing_token, true)?;
                self.last_fencing_token = token;
                Answer::Fence(Some(step.server.fence))
            }
            Command::Take => Answer::Was(!matches!(answer, Value::Nil | Value::Number(0))),
            Command::Downgrade => match answer.number() {
                0 => Answer::Was(false),
                left => Answer::Adopted(ticks(left)),
            },
            _ => Answer::Was(answer.number() == 1),
        };
        same("the answer", found, step.answer)
    }
}

/// The state of a trace while its requests are queued.
struct Saying {
    rules: Rules,
    now: Tick,
    dead: [bool; PROCESSES],
    buried: Vec<Token>,
}

impl Saying {
    fn new(rules: Rules) -> Self {
        Saying {
            rules,
            now: 1,
            dead: [false; PROCESSES],
            buried: Vec::new(),
        }
    }
}

/// Returns how many first steps a trace shares with the one before it, where they have been checked.
fn seen(traces: &[Trace], n: usize) -> usize {
    let Some(before) = n.checked_sub(1) else {
        return 0;
    };
    let both = traces[before].steps.iter().zip(&traces[n].steps);
    both.take_while(|(one, other)| (one.token, one.command) == (other.token, other.command))
        .count()
}

/// A lock that has not been used, and the time of its first use.
struct Door {
    keys: [String; 3],
    number: usize,
    opened: i64,
    rules: Rules,
}

impl Door {
    fn new(number: usize, opened: i64, rules: Rules) -> Self {
        let key = |kind| format!("lock:{kind}door:{number}");
        Door {
            keys: ["", "::queue:", "::waiters:"].map(key),
            number,
            opened,
            rules,
        }
    }

    /// Returns digits: those of all tokens, the letter of the process, the attempt, and the number of the
    /// lock.
    fn name_of(&self, token: Token) -> String {
        let name = format!("00000000000080008{token:?}f{}", self.number);
        match self.rules.limit(token) {
            1 => name,
            UNLIMITED => name + "/2047",
            limit => format!("{name}/{limit}"),
        }
    }

    fn tombstone(&self, token: Token) -> String {
        format!("lock:::gone:{}", self.name_of(token))
    }

    fn check_sight(&self, step: &Step, sight: Value) -> Result<(), String> {
        let mut sight = sight.list().into_iter();
        let mut next = || sight.next().expect("four values");
        let (holders, ends) = (next().list(), next().list());
        let leases = ends.iter().map(|end| ticks(end.number()));
        let mut held: Vec<_> = holders.into_iter().map(Value::text).zip(leases).collect();
        held.sort();
        let server = &step.server;
        let mut expected: Vec<_> = server
            .holders()
            .iter()
            .map(|it| (self.name_of(it.token), it.until - server.now))
            .collect();
        if server.is_reserved() {
            expected.push(("::reserved".to_owned(), server.left()));
        }
        expected.sort();
        same("the holders", held, expected)?;
        same(
            "the rest of the last lease",
            ticks(next().number()),
            server.left(),
        )?;
        let queue: Vec<_> = next().list().into_iter().map(Value::text).collect();
        let tokens: Vec<_> = step.server.queue().map(|it| self.name_of(it)).collect();
        same("the known tokens", next().number(), tokens.len() as i64)?;
        same("the queue", queue, tokens)
    }

    fn standing(&self, answer: &Value, now: Tick) -> Result<Answer, String> {
        let Value::List(values) = answer else {
            return Err(format!("the answer is {answer:?}"));
        };
        // The holder's token may follow, which `check_sight` reads from the lock itself.
        let number = |value: &Value| match value {
            Value::Number(number) => Some(*number),
            _ => None,
        };
        let numbers: Vec<_> = values.iter().map_while(number).collect();
        Ok(match numbers[..] {
            [0] => Answer::Void,
            [1, left] => Answer::Granted(ticks(left)),
            [3, left] => Answer::Adopted(ticks(left)),
            [2, time, left, ahead, length] => Answer::Waiting(Place {
                at: self.tick(time, now)?,
                left: ticks(left),
                ahead: ahead as u8,
                length: length as u8,
            }),
            _ => return Err(format!("the answer is {numbers:?}")),
        })
    }

    /// Converts a server's time to a tick. It stands still except for the time that the trace itself takes.
    fn tick(&self, time: i64, now: Tick) -> Result<Tick, String> {
        let tick = self.opened..self.opened + TICK as i64 * 500;
        match tick.contains(&time) {
            true => Ok(now),
            false => Err(format!("{time} is not in {tick:?}")),
        }
    }

    /// Returns the channel and the text of a message.
    fn text_of(&self, news: News) -> (String, String) {
        let to = news.to();
        let token = self.name_of(to);
        let text = match news {
            News::Grant { lease, .. } => format!("grant {token} {lease} {}", self.keys[0]),
            News::First(_) => format!("first {token}"),
            News::Others(_) => format!("others {token}"),
            News::Free(_) => format!("free {token}"),
        };
        (channel(to.process()), text)
    }

    /// Replaces the times of a message by ticks.
    fn read(&self, (channel, text): (String, String)) -> Result<(String, String), String> {
        let words: Vec<_> = text.splitn(5, ' ').collect();
        if let ["grant", token, time, left, lock] = words[..] {
            self.tick(time.parse().expect("a time"), 0)?;
            let lease = ticks(left.parse().expect("a time"));
            return Ok((channel, format!("grant {token} {lease} {lock}")));
        }
        Ok((channel, text))
    }
}

fn ticks(milliseconds: i64) -> Tick {
    milliseconds.max(0).cast_unsigned().div_ceil(TICK) as Tick
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Result<(), String> {
    match found == expected {
        true => Ok(()),
        false => Err(format!("{what}: {found:?} instead of {expected:?}")),
    }
}
