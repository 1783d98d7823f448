//! One lock on a server: each request is one step. Time passes in ticks.

use std::fmt;

pub type Tick = u8;

/// The identity of one attempt of a process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token(pub u8);

/// Formats as a letter for the process and the number of the attempt.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let process = char::from(b'a' + self.process() as u8);
        write!(f, "{process}{}", self.attempt())
    }
}

pub const PROCESSES: usize = 4;
const ATTEMPTS: usize = 4;
const TOKENS: usize = PROCESSES * ATTEMPTS;

impl Token {
    /// Returns `None` after the last attempt that a process may make.
    pub const fn nth(process: usize, attempt: usize) -> Option<Token> {
        if process < PROCESSES && attempt < ATTEMPTS {
            return Some(Token((process * ATTEMPTS + attempt) as u8));
        }
        None
    }

    pub const fn process(self) -> usize {
        self.0 as usize / ATTEMPTS
    }

    pub const fn attempt(self) -> usize {
        self.0 as usize % ATTEMPTS
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Command {
    /// `SET NX PX`.
    Take,
    /// Expires after that tick; never, if that is 0.
    Wait(Tick),
    Renew,
    Fence,
    Release,
    Cancel,
    /// Cancel, with a tombstone.
    CancelWithTombstone,
    /// A client that does not know about queues deletes the lock, held or not.
    Expire,
    /// Some ticks pass.
    Pass(Tick),
    /// The process is gone, and its subscription with it.
    Disconnect,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Answer {
    Void,
    Granted(Tick),
    Adopted(Tick),
    Waiting(Place),
    /// `true` if the lock was the token's, or has become so.
    Was(bool),
    Fence(Option<u16>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    pub at: Tick,
    /// The remaining lease of the holder.
    pub left: Tick,
    pub ahead: u8,
    pub length: u8,
}

/// A message that the server sends to the process of a token unasked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum News {
    Grant {
        to: Token,
        at: Tick,
        lease: Tick,
    },
    First(Token),
    Others(Token),
    /// The lock is free: the waiter is to poll at once.
    Free(Token),
}

impl News {
    pub fn to(self) -> Token {
        let (News::Grant { to, .. } | News::First(to) | News::Others(to) | News::Free(to)) = self;
        to
    }
}

/// Durations and the rules of the scripts. The defaults are the protocol.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    pub ttl: Tick,
    /// The duration of a grant to a waiter.
    pub grant: Tick,
    /// How long a waiter counts as alive.
    pub alive: Tick,
    /// How long a woken waiter counts as alive, and the lock is reserved; if 0, a vacant lock is granted
    /// without waking.
    pub wake: Tick,
    /// How long a tombstone lasts; if 0, there are none.
    pub tombstone: Tick,
    /// How long a queue lasts after the last request; if 0, for ever.
    pub stay: Tick,
    /// *Wait* is ignored after it has expired.
    pub void: bool,
    /// *Wait* of the holder reports that it has the lock.
    pub adopt: bool,
    /// *Wait* of the holder prolongs its lease, which it should not.
    pub refresh: bool,
    /// A vacant lock goes to the first in the queue, whichever waiter asks.
    pub first_come: bool,
    /// *Cancel* releases a grant.
    pub give_back: bool,
    /// *Release* and *cancel* grant a lock that they find vacant.
    pub pump: bool,
    /// A waiter that is not alive is skipped.
    pub skip_silent: bool,
    /// A waiter whose process has no subscription is skipped.
    pub skip_deaf: bool,
    /// No fencing token is less than the server's clock.
    pub fence_by_clock: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Rules {
            ttl: 3,
            grant: 1,
            alive: 5,
            wake: 1,
            tombstone: 9,
            stay: 9,
            void: true,
            adopt: true,
            refresh: false,
            first_come: true,
            give_back: true,
            pump: true,
            skip_silent: true,
            skip_deaf: true,
            fence_by_clock: true,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Waiter {
    token: Token,
    alive: Tick,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Server {
    pub now: Tick,
    holder: Option<Token>,
    /// The lock has no holder, and only the first in the queue can take it.
    reserved: bool,
    /// The end of the holder's lease, or of the reservation.
    until: Tick,
    /// The number of holds so far.
    pub tenure: u8,
    pub fence: u16,
    waiting: u8,
    queue: [Waiter; TOKENS / 2],
    /// The time at which the queue expires.
    stays: Tick,
    /// The end of each token's tombstone.
    buried: [Tick; TOKENS],
    deaf: u8,
}

const VACANT: Waiter = Waiter {
    token: Token(u8::MAX),
    alive: 0,
};

impl Default for Server {
    fn default() -> Self {
        Server {
            now: 1,
            holder: None,
            reserved: false,
            until: 0,
            tenure: 0,
            fence: 0,
            waiting: 0,
            queue: [VACANT; TOKENS / 2],
            stays: 0,
            buried: [0; TOKENS],
            deaf: 0,
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.holder {
            Some(holder) => write!(f, "at {} {holder:?} has it for {}", self.now, self.left())?,
            None if self.reserved => write!(f, "at {} it is reserved", self.now)?,
            None => write!(f, "at {} it is vacant", self.now)?,
        }
        for waiter in self.waiters() {
            let left = waiter.alive.saturating_sub(self.now);
            write!(f, ", {:?} waits ({left})", waiter.token)?;
        }
        Ok(())
    }
}

impl Server {
    pub fn holder(&self) -> Option<Token> {
        self.holder
    }

    /// Returns `true` if only the first in the queue can take the lock.
    pub fn is_reserved(&self) -> bool {
        self.reserved
    }

    /// Returns `true` if any client can take the lock.
    fn is_vacant(&self) -> bool {
        self.holder.is_none() && !self.reserved
    }

    /// Returns the remaining lease of the holder.
    pub fn left(&self) -> Tick {
        self.until.saturating_sub(self.now)
    }

    pub fn queue(&self) -> impl Iterator<Item = Token> + '_ {
        self.waiters().iter().map(|waiter| waiter.token)
    }

    /// Returns the tokens in the queue that count as alive.
    pub fn alive(&self) -> impl Iterator<Item = Token> + '_ {
        let alive = |waiter: &&Waiter| waiter.alive > self.now;
        let waiters = self.waiters().iter();
        waiters.filter(alive).map(|waiter| waiter.token)
    }

    /// Returns `true` if a token may acquire the lock before all other waiters when `asker` polls, or leaves.
    pub fn is_next(&self, token: Token, asker: Token, leaves: bool) -> bool {
        let hears = |token: Token| self.deaf & 1 << token.process() == 0;
        let stays = |it: &&Waiter| match it.token == asker {
            true => !leaves,
            false => it.alive > self.now && hears(it.token),
        };
        let next = self.waiters().iter().find(stays);
        next.is_none_or(|next| next.token == token)
    }

    pub fn set_clock(&mut self, now: Tick) {
        self.now = now;
        if self.until <= now {
            self.vacate();
        }
    }

    /// Carries out a request of a token.
    pub fn step(
        &mut self,
        rules: &Rules,
        token: Token,
        command: Command,
        tell: &mut dyn FnMut(News),
    ) -> Answer {
        let mut script = Script {
            server: self,
            rules,
            tell,
        };
        match command {
            Command::Take => Answer::Was(script.take(token)),
            Command::Wait(void_after) => script.wait(token, void_after),
            Command::Renew => Answer::Was(script.renew(token)),
            Command::Fence => Answer::Fence(script.fence(token)),
            Command::Release => Answer::Was(script.release(token)),
            Command::Cancel => Answer::Was(script.cancel(token)),
            Command::CancelWithTombstone => {
                if rules.tombstone > 0 {
                    let until = script.server.now + rules.tombstone;
                    script.server.buried[token.0 as usize] = until;
                }
                Answer::Was(script.cancel(token))
            }
            Command::Expire => {
                let there = !self.is_vacant();
                self.vacate();
                Answer::Was(there)
            }
            Command::Pass(ticks) => {
                (0..ticks).for_each(|_| self.pass());
                Answer::Was(true)
            }
            Command::Disconnect => {
                self.deaf |= 1 << token.process();
                Answer::Was(true)
            }
        }
    }

    fn pass(&mut self) {
        self.now += 1;
        if self.until <= self.now {
            self.vacate();
        }
        if self.waiting > 0 && self.stays == self.now {
            self.queue = [VACANT; TOKENS / 2];
            self.waiting = 0;
        }
        if self.waiting == 0 {
            self.stays = 0;
        }
        for buried in &mut self.buried {
            if *buried <= self.now {
                *buried = 0;
            }
        }
    }

    fn waiters(&self) -> &[Waiter] {
        &self.queue[..self.waiting as usize]
    }

    fn place(&self, token: Token) -> Option<usize> {
        self.waiters().iter().position(|it| it.token == token)
    }

    fn give(&mut self, token: Token, lease: Tick) {
        self.reserved = false;
        self.holder = Some(token);
        self.until = self.now + lease;
        self.tenure += 1;
    }

    fn vacate(&mut self) {
        self.until = 0;
        self.reserved = false;
        self.holder = None;
    }

    fn remove(&mut self, place: usize) -> Waiter {
        let waiter = self.queue[place];
        self.queue
            .copy_within(place + 1..self.waiting as usize, place);
        self.waiting -= 1;
        self.queue[self.waiting as usize] = VACANT;
        waiter
    }

    /// Removes a token from the queue. Returns `true` if it was the first.
    fn leave(&mut self, token: Token) -> bool {
        let place = self.place(token);
        place.map(|place| self.remove(place));
        place == Some(0)
    }

    fn first(&self) -> Option<Waiter> {
        self.waiters().first().copied()
    }
}

/// A script that is running.
struct Script<'a> {
    server: &'a mut Server,
    rules: &'a Rules,
    tell: &'a mut dyn FnMut(News),
}

impl Script<'_> {
    fn take(&mut self, token: Token) -> bool {
        let free = self.server.is_vacant();
        if free {
            self.server.give(token, self.rules.ttl);
        }
        free
    }

    fn wait(&mut self, token: Token, void_after: Tick) -> Answer {
        let Rules { ttl, void, .. } = *self.rules;
        let late = void && void_after > 0 && self.server.now > void_after;
        if late || self.server.buried[token.0 as usize] > 0 {
            return Answer::Void;
        }
        let vacant = self.server.is_vacant();
        if vacant && self.rules.first_come {
            match self.rules.wake {
                0 if self.server.first().is_some_and(|it| it.token != token) => self.hand_on(),
                _ => self.wake_before(token),
            }
        }
        if self.server.holder.is_none() {
            let first = self.server.first();
            if !self.rules.first_come || first.is_none_or(|first| first.token == token) {
                self.server.leave(token);
                self.server.give(token, ttl);
                return Answer::Granted(ttl);
            }
            if vacant {
                self.server.reserved = true;
                self.server.until = self.server.now + self.rules.wake;
            }
        }
        if self.server.holder == Some(token) && self.rules.adopt {
            if self.rules.refresh {
                self.renew(token);
            }
            return Answer::Adopted(self.server.left());
        }
        self.stand(token)
    }

    fn stand(&mut self, token: Token) -> Answer {
        let alive = self.server.now + self.rules.alive;
        let place = self.server.place(token);
        let ahead = place.unwrap_or(self.server.waiting as usize);
        self.server.queue[ahead] = Waiter { token, alive };
        if self.rules.stay > 0 {
            self.server.stays = self.server.now + self.rules.stay;
        }
        if place.is_none() {
            self.server.waiting += 1;
            if self.server.waiting == 2 {
                self.publish(News::Others(self.server.queue[0].token));
            }
        }
        Answer::Waiting(Place {
            at: self.server.now,
            left: self.server.left(),
            ahead: ahead as u8,
            length: self.server.waiting,
        })
    }

    fn renew(&mut self, token: Token) -> bool {
        let ours = self.server.holder == Some(token);
        if ours {
            self.server.until = self.server.now + self.rules.ttl;
        }
        ours
    }

    fn fence(&mut self, token: Token) -> Option<u16> {
        let ours = self.server.holder == Some(token);
        ours.then(|| {
            let clock = match self.rules.fence_by_clock {
                true => u16::from(self.server.now) * 100,
                false => 0,
            };
            self.server.fence = clock.max(self.server.fence + 1);
            self.server.fence
        })
    }

    /// Wakes the waiters before the token: they are to poll at once, and soon count as dead unless they do.
    fn wake_before(&mut self, token: Token) {
        let now = self.server.now;
        let soon = now + self.rules.wake;
        let mut place = 0;
        while let Some(waiter) = self.server.waiters().get(place).copied()
            && waiter.token != token
        {
            let dead = self.rules.skip_silent && waiter.alive <= now;
            if dead || !self.publish(News::Free(waiter.token)) {
                self.server.remove(place);
                continue;
            }
            self.server.queue[place].alive = waiter.alive.min(soon);
            place += 1;
        }
    }

    fn release(&mut self, token: Token) -> bool {
        let held = self.server.holder == Some(token);
        if held {
            self.server.vacate();
        }
        if held || self.rules.pump && self.server.is_vacant() {
            self.hand_on();
        }
        held
    }

    fn cancel(&mut self, token: Token) -> bool {
        let moved_up = self.server.leave(token);
        let held = self.server.holder == Some(token) && self.rules.give_back;
        if held {
            self.server.vacate();
        }
        if held || self.rules.pump && self.server.is_vacant() {
            self.hand_on();
        } else if moved_up {
            self.tell_first();
        }
        held
    }

    /// Grants the lock, which has no holder, to the first in the queue.
    fn hand_on(&mut self) {
        let (at, lease) = (self.server.now, self.rules.grant);
        while let Some(first) = self.server.first() {
            self.server.remove(0);
            let to = first.token;
            if self.rules.skip_silent && first.alive <= at {
                continue;
            }
            if self.publish(News::Grant { to, at, lease }) {
                self.server.give(to, lease);
                return self.tell_first();
            }
        }
    }

    fn tell_first(&mut self) {
        while let Some(first) = self.server.first() {
            let dead = self.rules.skip_silent && first.alive <= self.server.now;
            if !dead && self.publish(News::First(first.token)) {
                return;
            }
            self.server.remove(0);
        }
    }

    /// Sends a message. Returns `true` if a process may have received it.
    fn publish(&mut self, news: News) -> bool {
        let hears = self.server.deaf & 1 << news.to().process() == 0;
        if hears {
            (self.tell)(news);
        }
        hears || !self.rules.skip_deaf
    }
}
