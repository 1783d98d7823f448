//! What a command makes of a record. It knows no clock, and asks no server: which leases have ended is a
//! judgment that the caller brings.

use crate::engine::store::record::{Holder, Record, Waiter};
use crate::engine::timeouts::GRANT_TTL;
use crate::engine::token::Token;
use crate::limit::Limit;
use std::time::Duration;

/// How long waiters that are called may take to answer.
pub(crate) const CALL: Duration = Duration::from_secs(3);
/// How many waiters are called at once.
pub(crate) const CALLED: usize = 16;
/// How many processes have a place in the line of a lock.
pub(crate) const MAX_WAITERS: usize = 128;
/// How many tokens are remembered from which a lock was taken.
const MAX_TAKEN: usize = 8;

/// Who wants a lock, and for how many milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Want {
    pub(crate) token: Token,
    pub(crate) ttl: u32,
}

/// All are idempotent: repeated after a lost reply, they do no harm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// Acquires a lock that is free.
    Try(Want),
    /// Acquires it, or enters the line, or keeps its place there.
    Wait(Want),
    Renew(Want),
    /// Releases it, or leaves the line.
    Leave(Token),
    /// Holds it under another token, and lets others in whose limits allow it.
    Downgrade(Token, Want),
    /// Draws a fencing token for that holder.
    Number(Token, u64),
    /// Records the number of its proof in place of that one, or finds the one that it has.
    Prove(Token, u64, u64),
    /// Takes the lock from that holder, and draws a fencing token.
    Take(Token, u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Held,
    NotHeld,
    Waits {
        ahead: usize,
    },
    /// Too many wait already.
    Full,
    /// It was served before, and holds the lock for that long without a write.
    Granted(Duration),
    /// The lock was taken from that token.
    Taken,
    Left {
        held: bool,
    },
    /// A number that was drawn, or of a proof. `held`: the holder had the lock.
    Number {
        held: bool,
        number: u64,
    },
}

/// What the caller knows besides the record.
pub(crate) trait Judge {
    /// The lease has ended for the holder itself.
    fn has_ended(&self, holder: &Holder) -> bool;
    /// No transaction relies on the holder any more.
    fn may_go(&self, holder: &Holder) -> bool {
        holder.proof == 0
    }
    /// The present call has lasted long enough.
    fn call_has_ended(&self, record: &Record) -> bool;
    /// The first waiter has been that for so long, uncalled, that it may be dead.
    fn may_be_dead(&self, first: &Waiter) -> bool;
    /// A number at random: what was seen of an earlier lease of a token, or of an earlier call, must not be
    /// taken for the present one.
    fn nonce(&self) -> u32;
    /// The time in microseconds, for fencing tokens.
    fn clock(&self) -> u64;
    /// When a time that begins now has ended by the server's clock, in microseconds since 1970; 0 if that is
    /// not known.
    fn until(&self, time: Duration) -> u64;
}

impl Want {
    fn length(self) -> Duration {
        Duration::from_millis(self.ttl.into())
    }
}

impl Command {
    pub(crate) fn token(&self) -> Token {
        match *self {
            Command::Try(want) | Command::Wait(want) | Command::Renew(want) => want.token,
            Command::Leave(token) | Command::Downgrade(token, _) => token,
            Command::Number(token, _) | Command::Prove(token, ..) | Command::Take(token, _) => {
                token
            }
        }
    }
}

impl Record {
    /// Carries a command out.
    pub(crate) fn step(&mut self, judge: &dyn Judge, command: Command) -> Reply {
        self.pass_ended(judge, command.token());
        self.serve(judge);
        let reply = match command {
            Command::Try(want) => match self.enter(judge, want) {
                true => Reply::Held,
                false => Reply::NotHeld,
            },
            Command::Wait(want) => self.wait(judge, want),
            Command::Renew(want) => match self.confirm(judge, want) {
                true => Reply::Held,
                false => Reply::NotHeld,
            },
            Command::Leave(token) => Reply::Left {
                held: self.leave(judge, token),
            },
            Command::Downgrade(token, want) => self.downgrade(judge, token, want),
            Command::Number(token, at_least) => match self.place_of(token) {
                Some(_) => self.draw(judge, true, at_least),
                None => Reply::NotHeld,
            },
            Command::Prove(token, number, before) => self.prove(token, number, before),
            Command::Take(token, at_least) => {
                let held = self.leave(judge, token);
                if !self.taken.contains(&token) {
                    self.taken.insert(0, token);
                    self.taken.truncate(MAX_TAKEN);
                }
                self.draw(judge, held, at_least)
            }
        };
        self.serve(judge);
        // It was the first, and nothing was in its way any more.
        if let (Command::Wait(want), Reply::Waits { .. }) = (command, reply)
            && self.confirm(judge, want)
        {
            return Reply::Held;
        }
        reply
    }

    /// Returns the holder with that token.
    pub(crate) fn holder(&self, token: Token) -> Option<&Holder> {
        self.place_of(token).map(|place| &self.holders[place])
    }

    fn place_of(&self, token: Token) -> Option<usize> {
        let is_meant = |it: &Holder| it.token == token && !it.left;
        self.holders.iter().position(is_meant)
    }

    fn fits(&self, token: Token) -> bool {
        let lowest = self.holders.iter().map(|it| it.token.limit()).min();
        let lowest = lowest.unwrap_or(Limit::UNLIMITED);
        token.limit().fits(self.holders.len(), lowest)
    }

    /// Removes holders whose leases have ended. After a grant that was not taken up, calls the waiters, many
    /// at once, so that a row of dead ones costs one call; and removes those that do not answer.
    fn pass_ended(&mut self, judge: &dyn Judge, own: Token) {
        let ended = |it: &Holder| it.left || it.token != own && judge.has_ended(it);
        let lapses = |it: &Holder| it.granted && !it.left && ended(it);
        let lapsed = self.holders.iter().any(lapses);
        self.holders.retain_mut(|it| {
            it.left = ended(it);
            !it.left || !judge.may_go(it)
        });
        if self.is_calling() && judge.call_has_ended(self) {
            self.waiters.retain(|it| !it.absent || it.token == own);
            self.call = 0;
        } else if lapsed && !self.is_calling() && !self.waiters.is_empty() {
            self.call(judge);
        }
    }

    fn call(&mut self, judge: &dyn Judge) {
        (self.call, self.call_until) = (judge.nonce().max(1), judge.until(CALL));
        let called = self.waiters.iter_mut().take(CALLED);
        called.for_each(|it| it.absent = true);
    }

    pub(crate) fn is_calling(&self) -> bool {
        self.call != 0
    }

    /// Grants the lock to the first waiters, as long as each fits.
    fn serve(&mut self, judge: &dyn Judge) {
        while let Some(first) = self.waiters.first()
            && !(first.absent && self.is_calling())
            && self.fits(first.token)
        {
            let Waiter { token, ttl, .. } = self.waiters.remove(0);
            let ttl = ttl.min(GRANT_TTL.as_millis() as u32);
            let granted = true;
            self.holders.push(Holder {
                granted,
                ..Holder::new(judge, Want { token, ttl })
            });
        }
        if self.is_calling() && !self.waiters.iter().any(|it| it.absent) {
            self.call = 0;
        }
        if !self.is_calling() {
            self.call_until = 0;
        }
    }

    /// Acquires the lock if it fits. A newcomer passes no waiter.
    fn enter(&mut self, judge: &dyn Judge, want: Want) -> bool {
        let is_free = self.waiters.is_empty() && self.fits(want.token);
        let may_enter = is_free && !self.taken.contains(&want.token);
        if self.place_of(want.token).is_none() && may_enter {
            self.holders.push(Holder::new(judge, want));
        }
        self.place_of(want.token).is_some()
    }

    /// Begins the lease of a holder anew.
    fn confirm(&mut self, judge: &dyn Judge, want: Want) -> bool {
        let Some(place) = self.place_of(want.token) else {
            return false;
        };
        let held = &mut self.holders[place];
        held.renewals = held.renewals.wrapping_add(1);
        (held.ttl, held.granted) = (want.ttl, false);
        held.until = judge.until(want.length());
        true
    }

    fn wait(&mut self, judge: &dyn Judge, want: Want) -> Reply {
        if self.taken.contains(&want.token) {
            return Reply::Taken;
        }
        // Its lease may be that of an earlier request, which had no reply.
        if self.confirm(judge, want) {
            return Reply::Held;
        }
        let place = self.waiters.iter().position(|it| it.token == want.token);
        if let Some(ahead) = place {
            // It would share the lock if those before it were not there.
            let is_kept_out = ahead > 0 && !self.is_calling() && self.fits(want.token);
            if is_kept_out && judge.may_be_dead(&self.waiters[0]) {
                self.call(judge);
            }
            self.waiters[ahead].absent = false;
            return Reply::Waits { ahead };
        }
        if self.enter(judge, want) {
            return Reply::Held;
        }
        if self.waiters.len() >= MAX_WAITERS {
            return Reply::Full;
        }
        let Want { token, ttl } = want;
        self.waiters.push(Waiter {
            token,
            ttl,
            absent: false,
        });
        Reply::Waits {
            ahead: self.waiters.len() - 1,
        }
    }

    /// It keeps others out as long as a transaction relies on it.
    fn leave(&mut self, judge: &dyn Judge, token: Token) -> bool {
        self.waiters.retain(|it| it.token != token);
        let Some(place) = self.place_of(token) else {
            return false;
        };
        match judge.may_go(&self.holders[place]) {
            true => _ = self.holders.remove(place),
            false => self.holders[place].left = true,
        }
        true
    }

    /// Writes anew in any case: whoever has found the holder to have left, and ended its proof, must not
    /// remove it.
    fn prove(&mut self, token: Token, number: u64, before: u64) -> Reply {
        let Some(place) = self.place_of(token) else {
            return Reply::NotHeld;
        };
        let holder = &mut self.holders[place];
        holder.renewals = holder.renewals.wrapping_add(1);
        if holder.proof == before {
            holder.proof = number;
        }
        Reply::Number {
            held: true,
            number: holder.proof,
        }
    }

    fn downgrade(&mut self, judge: &dyn Judge, token: Token, to: Want) -> Reply {
        if self.confirm(judge, to) {
            return Reply::Held;
        }
        let Some(place) = self.place_of(token) else {
            return Reply::NotHeld;
        };
        let after = Holder::new(judge, to);
        match judge.may_go(&self.holders[place]) {
            true => self.holders[place] = after,
            false => {
                self.holders[place].left = true;
                self.holders.push(after);
            }
        }
        Reply::Held
    }

    fn draw(&mut self, judge: &dyn Judge, held: bool, at_least: u64) -> Reply {
        self.fence = self
            .fence
            .saturating_add(1)
            .max(judge.clock())
            .max(at_least);
        self.keep = true;
        Reply::Number {
            held,
            number: self.fence,
        }
    }
}

impl Holder {
    fn new(judge: &dyn Judge, want: Want) -> Holder {
        let Want { token, ttl } = want;
        Holder {
            token,
            ttl,
            renewals: judge.nonce(),
            until: judge.until(want.length()),
            granted: false,
            proof: 0,
            left: false,
        }
    }
}
