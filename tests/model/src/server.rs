//! One lock on a server: each request is one step. Time passes in ticks.
//!
//! A lock has one holder, or several that share it. Each has a limit: the greatest number of holders while it
//! is one of them, itself included.

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
pub const ATTEMPTS: usize = 4;
/// The limit of a holder beside any number of others.
pub const UNLIMITED: u8 = u8::MAX;
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
    /// `SET NX PX`, or the script that shares a lock.
    Take,
    /// Expires after that tick; never, if that is 0.
    Wait(Tick),
    Renew,
    Fence,
    Release,
    Cancel,
    /// Cancel, with a tombstone.
    CancelWithTombstone,
    /// The token, an exclusive holder, is replaced by the next token of its process, which shares the lock.
    Downgrade,
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
    /// The time until a lease ends that is in the token's way.
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
    /// How long the first in the queue, if it cannot enter, may be silent while others behind it could.
    pub silence: Tick,
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

    // Of shared locks.
    /// The limit of each process's tokens, by attempt.
    pub limits: [[u8; ATTEMPTS]; PROCESSES],
    /// A newcomer that shares the lock passes no waiter.
    pub respects_queue: bool,
    /// The lowest limit of all holders counts, and not only the newcomer's.
    pub lowest_limit: bool,
    /// Each holder has a lease of its own.
    pub own_leases: bool,
    /// The lock lasts as long as the last lease, and not as the one that was acquired last.
    pub last_lease: bool,
    /// A holder whose lease has ended stops counting while others hold the lock.
    pub ends_each: bool,
    /// A release grants the lock beside the other holders.
    pub grants_beside: bool,
    /// A waiter that gives up makes room for those behind it.
    pub cancel_grants: bool,
    /// Neighbors in the queue that fit beside each other enter together.
    pub neighbors: bool,
    /// A silent waiter at the front is woken, and leaves the queue unless it polls.
    pub wakes_silent: bool,
    /// A renewal makes no token a holder.
    pub only_renews: bool,
    /// A repeated downgrade prolongs nothing.
    pub downgrades_once: bool,
    /// The key of a lock for which clients wait outlasts the lease: newcomers find it.
    pub outlasts: bool,
}

impl Rules {
    pub fn limit(&self, token: Token) -> u8 {
        self.limits[token.process()][token.attempt()]
    }
}

impl Default for Rules {
    fn default() -> Self {
        Rules {
            ttl: 3,
            grant: 1,
            alive: 5,
            wake: 1,
            silence: 1,
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
            limits: [[1; ATTEMPTS]; PROCESSES],
            respects_queue: true,
            lowest_limit: true,
            own_leases: true,
            last_lease: true,
            ends_each: true,
            grants_beside: true,
            cancel_grants: true,
            neighbors: true,
            wakes_silent: true,
            only_renews: true,
            downgrades_once: true,
            outlasts: true,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Waiter {
    token: Token,
    alive: Tick,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Holder {
    pub token: Token,
    /// The end of its lease.
    pub until: Tick,
    /// The number of this hold among all.
    pub tenure: u8,
    /// The lease is a whole ttl. A shorter one ends within a tick, and so does the time by which the key
    /// outlasts it.
    whole: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Server {
    pub now: Tick,
    held: u8,
    /// By token.
    holders: [Holder; TOKENS / 2],
    /// Several tokens share the lock, or did until now.
    is_set: bool,
    /// The key outlasts the last lease.
    outlasts: bool,
    /// The last lease has ended in this tick, and no script has seen it.
    has_just_ended: bool,
    /// The lock has no holder, and only the first in the queue can take it, until this time.
    reserved: Tick,
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

const FREE: Holder = Holder {
    token: Token(u8::MAX),
    until: 0,
    tenure: 0,
    whole: false,
};

impl Default for Server {
    fn default() -> Self {
        Server {
            now: 1,
            held: 0,
            holders: [FREE; TOKENS / 2],
            is_set: false,
            outlasts: false,
            has_just_ended: false,
            reserved: 0,
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
        match self.holders() {
            [] if self.is_reserved() => write!(f, "at {} it is reserved", self.now)?,
            [] => write!(f, "at {} it is vacant", self.now)?,
            holders => {
                write!(f, "at {}", self.now)?;
                for holder in holders {
                    let left = holder.until.saturating_sub(self.now);
                    write!(f, " {:?} has it for {left}", holder.token)?;
                }
            }
        }
        for waiter in self.waiters() {
            let left = waiter.alive.saturating_sub(self.now);
            write!(f, ", {:?} waits ({left})", waiter.token)?;
        }
        Ok(())
    }
}

impl Server {
    /// Returns the holders, by token.
    pub fn holders(&self) -> &[Holder] {
        &self.holders[..self.held as usize]
    }

    /// Returns the token's part in the lock, if it holds the lock.
    pub fn hold_of(&self, token: Token) -> Option<&Holder> {
        let mut holders = self.holders().iter();
        holders.find(|holder| holder.token == token && holder.until > self.now)
    }

    /// Returns `true` if the lock is stored as a set of holders.
    pub fn is_set(&self) -> bool {
        self.is_set
    }

    /// Returns `true` if only the first in the queue can take the lock.
    pub fn is_reserved(&self) -> bool {
        self.reserved > 0
    }

    /// Returns `true` if the last lease has ended in this tick, and no script has seen it.
    pub fn has_just_ended(&self) -> bool {
        self.has_just_ended
    }

    /// Returns `true` if the lock has no holder, and is not reserved.
    fn is_vacant(&self) -> bool {
        self.held == 0 && !self.is_reserved()
    }

    /// Returns the remaining lease of the last holder, or the rest of the reservation.
    pub fn left(&self) -> Tick {
        let last = self.holders().iter().map(|holder| holder.until).max();
        last.unwrap_or(self.reserved).saturating_sub(self.now)
    }

    /// Returns `true` if the token may hold the lock beside the holders whose leases run.
    pub fn has_room_for(&self, rules: &Rules, token: Token) -> bool {
        let live = || self.holders().iter().filter(|it| it.until > self.now);
        let lowest = live().map(|it| rules.limit(it.token)).min();
        live().count() < rules.limit(token).min(lowest.unwrap_or(UNLIMITED)).into()
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

    pub fn hears(&self, token: Token) -> bool {
        self.deaf & 1 << token.process() == 0
    }

    pub fn set_clock(&mut self, now: Tick) {
        self.now = now;
        self.has_just_ended = false;
        self.end_leases(true);
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
            Command::Downgrade => match script.downgrade(token) {
                Some(left) => Answer::Adopted(left),
                None => Answer::Was(false),
            },
            Command::Expire => {
                let there = !self.is_vacant() || self.has_just_ended();
                self.vacate();
                Answer::Was(there)
            }
            Command::Pass(ticks) => {
                (0..ticks).for_each(|_| self.pass(rules));
                Answer::Was(true)
            }
            Command::Disconnect => {
                self.deaf |= 1 << token.process();
                Answer::Was(true)
            }
        }
    }

    fn pass(&mut self, rules: &Rules) {
        self.now += 1;
        let whole = self.holders().iter().filter(|it| it.whole);
        let ends = self.outlasts && whole.map(|it| it.until).max() == Some(self.now);
        self.end_leases(rules.ends_each);
        self.has_just_ended = ends && self.held == 0;
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

    /// Removes the holders whose leases have ended; unless `each`, only when all have.
    fn end_leases(&mut self, each: bool) {
        let now = self.now;
        if self.reserved <= now {
            self.reserved = 0;
        }
        if each || self.left() == 0 {
            self.retain(|holder| holder.until > now);
        }
    }

    fn retain(&mut self, keep: impl Fn(&Holder) -> bool) {
        let mut held = 0;
        for n in 0..self.held as usize {
            if keep(&self.holders[n]) {
                self.holders[held] = self.holders[n];
                held += 1;
            }
        }
        self.holders[held..].fill(FREE);
        self.held = held as u8;
        self.is_set &= held > 0;
        self.outlasts &= held > 0;
    }

    fn waiters(&self) -> &[Waiter] {
        &self.queue[..self.waiting as usize]
    }

    fn place(&self, token: Token) -> Option<usize> {
        self.waiters().iter().position(|it| it.token == token)
    }

    /// Makes the token a holder. `by_queue`: the request knows of the queue.
    fn give(&mut self, rules: &Rules, token: Token, lease: Tick, by_queue: bool) {
        self.reserved = 0;
        self.has_just_ended = false;
        self.tenure += 1;
        let holder = Holder {
            token,
            until: self.now + lease,
            tenure: self.tenure,
            whole: lease == rules.ttl,
        };
        let at = self.holders().partition_point(|it| it.token < token);
        self.holders.copy_within(at..self.held as usize, at + 1);
        self.holders[at] = holder;
        self.held += 1;
        self.is_set |= self.held > 1;
        self.outlasts |= self.is_set || by_queue;
        self.end_together(rules, holder.until);
    }

    /// Moves the ends of all leases, if they are not the holders' own.
    fn end_together(&mut self, rules: &Rules, until: Tick) {
        for holder in &mut self.holders[..self.held as usize] {
            if !rules.own_leases {
                holder.until = holder.until.max(until);
            }
            if !rules.last_lease {
                holder.until = holder.until.min(until);
            }
        }
    }

    fn vacate(&mut self) {
        self.reserved = 0;
        self.has_just_ended = false;
        self.retain(|_| false);
    }

    /// Ends a token's hold. Returns `true` if it held the lock.
    fn take_away(&mut self, token: Token) -> bool {
        let held = self.hold_of(token).is_some();
        self.retain(|holder| holder.token != token);
        held
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
    /// Returns the lowest limit that counts.
    fn lowest(&self) -> u8 {
        let limits = self.server.holders().iter();
        let lowest = limits.map(|it| self.rules.limit(it.token)).min();
        let lowest = lowest.unwrap_or(UNLIMITED);
        if self.rules.lowest_limit || lowest == 1 {
            lowest
        } else {
            UNLIMITED
        }
    }

    fn fits(&self, token: Token) -> bool {
        self.server.held < self.rules.limit(token).min(self.lowest())
    }

    fn take(&mut self, token: Token) -> bool {
        let waits = self.rules.respects_queue && self.server.waiting > 0;
        let holds = self.server.hold_of(token).is_some();
        let beside = !self.server.is_reserved() && self.fits(token) && !holds && !waits;
        let is_found = self.rules.outlasts && self.server.has_just_ended();
        let vacant = self.server.is_vacant() && !is_found;
        let taken = vacant || self.rules.limit(token) > 1 && beside;
        if taken {
            self.server.give(self.rules, token, self.rules.ttl, false);
        }
        taken
    }

    fn wait(&mut self, token: Token, void_after: Tick) -> Answer {
        let Rules { ttl, void, .. } = *self.rules;
        let late = void && void_after > 0 && self.server.now > void_after;
        if late || self.server.buried[token.0 as usize] > 0 {
            return Answer::Void;
        }
        self.server.has_just_ended = false;
        if self.server.hold_of(token).is_some() && self.rules.adopt {
            if self.rules.refresh {
                self.renew(token);
            }
            let until = self.server.hold_of(token).map_or(0, |it| it.until);
            return Answer::Adopted(until - self.server.now);
        }
        let vacant = self.server.is_vacant();
        let mut woken = None;
        if self.fits(token) {
            if self.rules.first_come && !self.server.is_reserved() {
                woken = self.wake_others(token);
            }
            let first = self.server.first();
            let passes = !self.rules.first_come || first.is_none_or(|it| it.token == token);
            if self.fits(token) && passes {
                self.server.leave(token);
                self.server.give(self.rules, token, ttl, true);
                if self.rules.neighbors {
                    self.hand_on();
                }
                return Answer::Granted(ttl);
            }
            if vacant && self.server.held == 0 {
                self.server.reserved = self.server.now + self.rules.wake;
            }
        }
        self.stand(token, woken)
    }

    /// Wakes the waiters ahead of the token, if they may enter or if the first is silent. Returns after which
    /// time the token may enter if they are dead.
    fn wake_others(&mut self, token: Token) -> Option<Tick> {
        while let Some(first) = self.server.first()
            && first.token != token
            && !self.fits(first.token)
        {
            let Rules { silence, wake, .. } = *self.rules;
            let now = self.server.now;
            if !self.rules.wakes_silent {
                return None;
            }
            let deaf = self.rules.skip_deaf && !self.server.hears(first.token);
            if deaf || self.rules.skip_silent && first.alive <= now {
                self.server.remove(0);
                continue;
            }
            let silent = now + self.rules.alive - first.alive;
            if silent < silence {
                return Some(silence - silent);
            }
            if first.alive > now + wake {
                self.wake_before(token);
            }
            return Some(wake);
        }
        let first = self.server.first();
        if first.is_none_or(|first| first.token == token) {
            return None;
        }
        match self.rules.wake {
            0 => {
                self.hand_on();
            }
            _ => self.wake_before(token),
        }
        Some(self.rules.wake)
    }

    fn stand(&mut self, token: Token, woken: Option<Tick>) -> Answer {
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
        self.server.outlasts |= self.server.held > 0;
        let left = self.in_the_way(token);
        Answer::Waiting(Place {
            at: self.server.now,
            left: left.min(woken.unwrap_or(left)),
            ahead: ahead as u8,
            length: self.server.waiting,
        })
    }

    /// Returns the time until a lease ends that is in the token's way.
    fn in_the_way(&self, token: Token) -> Tick {
        let holders = self.server.holders().iter();
        let shares = |token: Token| self.rules.limit(token) > 1;
        if !holders.clone().all(|it| shares(it.token)) || !shares(token) {
            return self.server.left();
        }
        let soonest = holders.map(|it| it.until).min();
        soonest.map_or(self.server.left(), |end| {
            end.saturating_sub(self.server.now)
        })
    }

    fn renew(&mut self, token: Token) -> bool {
        let until = self.server.now + self.rules.ttl;
        let ours = self.server.hold_of(token).is_some();
        if !ours && !self.rules.only_renews && self.rules.limit(token) > 1 && self.fits(token) {
            self.server.give(self.rules, token, self.rules.ttl, false);
            return true;
        }
        if ours {
            let holders = &mut self.server.holders[..self.server.held as usize];
            for holder in holders.iter_mut().filter(|it| it.token == token) {
                holder.until = until;
                holder.whole = true;
            }
            self.server.end_together(self.rules, until);
        }
        ours
    }

    fn fence(&mut self, token: Token) -> Option<u16> {
        self.server.has_just_ended = false;
        let ours = self.server.hold_of(token).is_some();
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
        let mut place = 0;
        while let Some(waiter) = self.server.waiters().get(place).copied()
            && waiter.token != token
        {
            place += usize::from(self.wake(place));
        }
    }

    /// Wakes one waiter. Returns `false` if it is dead already, and has left the queue.
    fn wake(&mut self, place: usize) -> bool {
        let (now, waiter) = (self.server.now, self.server.queue[place]);
        let dead = self.rules.skip_silent && waiter.alive <= now;
        if dead || !self.publish(News::Free(waiter.token)) {
            self.server.remove(place);
            return false;
        }
        self.server.queue[place].alive = waiter.alive.min(now + self.rules.wake);
        true
    }

    fn release(&mut self, token: Token) -> bool {
        let shares = self.rules.limit(token) > 1;
        if self.server.waiting > 0 || shares {
            self.server.has_just_ended = false;
        }
        let held = self.server.take_away(token);
        let vacant = self.server.is_vacant();
        let beside = self.rules.grants_beside && self.server.held > 0;
        if vacant && (held || self.rules.pump) || beside {
            self.hand_on();
        }
        held
    }

    fn cancel(&mut self, token: Token) -> bool {
        self.server.has_just_ended = false;
        let moved_up = self.server.leave(token);
        let held = self.rules.give_back && self.server.take_away(token);
        let vacant = self.server.is_vacant();
        let beside =
            self.server.held > 0 && (self.rules.cancel_grants || held && self.rules.grants_beside);
        let grants = vacant && (held || self.rules.pump) || beside;
        if !(grants && self.hand_on()) && moved_up {
            self.tell_first();
        }
        held
    }

    /// Returns for how long the next token holds the lock then.
    fn downgrade(&mut self, token: Token) -> Option<Tick> {
        let next = Token(token.0 + 1);
        self.server.has_just_ended = false;
        if let Some(holder) = self.server.hold_of(next) {
            let left = holder.until - self.server.now;
            return Some(match self.rules.downgrades_once {
                true => left,
                false => self.rules.ttl,
            });
        }
        let held = !self.server.is_set && self.server.take_away(token);
        held.then(|| {
            self.server.give(self.rules, next, self.rules.ttl, true);
            self.hand_on();
            self.rules.ttl
        })
    }

    /// Grants the lock to the first in the queue, and to those right behind it that fit. Returns `true` if
    /// any has left the queue.
    fn hand_on(&mut self) -> bool {
        let (at, lease) = (self.server.now, self.rules.grant);
        let mut changed = false;
        while !self.server.is_reserved()
            && self.server.held < self.lowest()
            && let Some(first) = self.server.first()
        {
            let to = first.token;
            let dead = self.rules.skip_silent && first.alive <= at;
            if !dead && !self.fits(to) {
                break;
            }
            self.server.remove(0);
            changed = true;
            if dead || self.server.hold_of(to).is_some() {
                continue;
            }
            self.server.give(self.rules, to, lease, true);
            if !self.publish(News::Grant { to, at, lease }) {
                self.server.take_away(to);
            } else if !self.rules.neighbors {
                break;
            }
        }
        if changed {
            self.tell_first();
        }
        changed
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
        let hears = self.server.hears(news.to());
        if hears {
            (self.tell)(news);
        }
        hears || !self.rules.skip_deaf
    }
}
