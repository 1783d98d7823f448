//! Explores what a few processes make of one record: in every order, with lost requests, lost replies, writes
//! that come late, deaths and leases that end at any time. Time is a choice of the model: a lease may end for
//! its holder at any moment, and only after that others may judge so.

use crate::engine::store::machine::{Command, Judge, Reply, Want};
use crate::engine::store::record::{Holder, Record, Waiter};
use crate::engine::token::{Draw, Token};
use crate::limit::Limit;
use crate::process::ProcessId;
use std::collections::HashSet;
use std::time::{Duration, SystemTime};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Out,
    Waits,
    /// Relies on its hold.
    Holds,
    /// Has to release what it may have.
    Leaves,
    Dead,
    Done,
}

/// What becomes of a write.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Replied,
    ReplyLost,
    /// It may still come.
    Late,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Try(usize, Fate),
    Wait(usize, Fate),
    Renew(usize, Fate),
    Downgrade(usize, Fate),
    Leave(usize, Fate),
    /// A late write comes.
    Comes(usize),
    LeaseEnds(usize),
    Dies(usize),
    CallEnds,
}

/// A defect that the model must find.
#[derive(Clone, Copy, PartialEq)]
enum Defect {
    None,
    /// Leases are judged to have ended that have not.
    JudgesEarly,
    /// A write counts although another one came before it.
    SwapsBlindly,
    /// A process relies on a hold before the reply came.
    Presumes,
}

struct Rules {
    limits: &'static [u16],
    defect: Defect,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct World {
    record: Record,
    phases: Vec<Phase>,
    /// Who has turned its hold into one that shares the lock.
    shares: Vec<bool>,
    /// Whose leases have ended, for themselves.
    ended: Vec<bool>,
    call_over: bool,
    /// Writes that had no reply, and whether each inserts: they count on the record of now, or on none.
    late: Vec<(Record, bool)>,
    /// Who has an insertion without a reply.
    unanswered: Vec<bool>,
    /// In which order the processes entered the line; 0: not there.
    order: Vec<u8>,
    /// How many faults may yet occur.
    faults: u8,
}

struct Judges<'a>(&'a World, &'a Rules);

impl Judge for Judges<'_> {
    fn has_ended(&self, holder: &Holder) -> bool {
        let who = holder.token.process().0 as usize;
        self.0.ended[who] || self.1.defect == Defect::JudgesEarly && !holder.granted
    }

    fn call_has_ended(&self, _: &Record) -> bool {
        self.0.call_over
    }

    fn may_be_dead(&self, _: &Waiter) -> bool {
        true
    }

    fn clock(&self) -> u64 {
        0
    }

    fn nonce(&self) -> u32 {
        0
    }

    fn until(&self, _: Duration) -> u64 {
        0
    }
}

fn limit(number: u16) -> Limit {
    Limit::from_number(number).unwrap_or(Limit::EXCLUSIVE)
}

impl World {
    fn new(rules: &Rules, faults: u8) -> World {
        let count = rules.limits.len();
        World {
            record: Record::default(),
            phases: vec![Phase::Out; count],
            shares: vec![false; count],
            ended: vec![false; count],
            call_over: false,
            late: Vec::new(),
            unanswered: vec![false; count],
            order: vec![0; count],
            faults,
        }
    }

    fn token(&self, rules: &Rules, who: usize) -> Token {
        let draw = Draw {
            random: [self.shares[who].into(); 16],
            made_at: SystemTime::UNIX_EPOCH,
        };
        let own = match self.shares[who] {
            true => Limit::UNLIMITED,
            false => limit(rules.limits[who]),
        };
        Token::new(ProcessId(who as u32), draw).with_limit(own)
    }

    fn want(&self, rules: &Rules, who: usize) -> Want {
        Want {
            token: self.token(rules, who),
            ttl: 10_000,
        }
    }

    fn has(&self, who: usize) -> bool {
        let is_own = |token: Token| token.process().0 as usize == who;
        self.record.holders.iter().any(|it| is_own(it.token))
    }

    fn is_absent(&self) -> bool {
        self.record.is_idle() && !self.record.keep
    }

    /// Carries a command out, as a driver would. Returns the reply if it came.
    fn command(
        &mut self,
        rules: &Rules,
        who: usize,
        command: Command,
        fate: Fate,
    ) -> Option<Reply> {
        let mut record = self.record.clone();
        let reply = record.step(&Judges(self, rules), command);
        record.keep |= self.unanswered[who];
        let must_stay = self.unanswered[who] && self.is_absent();
        if record != self.record || must_stay {
            let inserts = self.is_absent();
            if fate != Fate::Replied {
                self.faults -= 1;
                self.unanswered[who] |= inserts;
            }
            if fate == Fate::Late {
                self.late.push((record, inserts));
                return None;
            }
            self.write(rules, record);
        }
        (fate == Fate::Replied).then_some(reply)
    }

    fn write(&mut self, rules: &Rules, mut record: Record) {
        // What only counts is made small, so that there is an end of states.
        record.holders.iter_mut().for_each(|it| it.renewals = 0);
        if record.call == 0 || self.record.call == 0 {
            self.call_over = false;
        }
        self.record = record;
        // Others are of an earlier version, and can't count any more.
        if rules.defect != Defect::SwapsBlindly {
            self.late.retain(|(_, inserts)| *inserts);
        }
        for who in 0..self.phases.len() {
            self.ended[who] &= self.has(who);
        }
    }

    fn events(&self, rules: &Rules) -> Vec<Event> {
        let mut events = Vec::new();
        let lossy = self.faults > 0;
        let fates: &[Fate] = match lossy {
            true => &[Fate::Replied, Fate::ReplyLost, Fate::Late],
            false => &[Fate::Replied],
        };
        for who in 0..self.phases.len() {
            for fate in fates.iter().copied() {
                match self.phases[who] {
                    Phase::Out => events.extend([Event::Wait(who, fate), Event::Try(who, fate)]),
                    Phase::Waits => {
                        events.extend([Event::Wait(who, fate), Event::Leave(who, fate)])
                    }
                    Phase::Holds => {
                        events.extend([Event::Leave(who, fate), Event::Renew(who, fate)]);
                        if rules.limits[who] == 1 && !self.shares[who] {
                            events.push(Event::Downgrade(who, fate));
                        }
                    }
                    Phase::Leaves => events.push(Event::Leave(who, fate)),
                    Phase::Dead | Phase::Done => {}
                }
            }
            if lossy && matches!(self.phases[who], Phase::Waits | Phase::Holds) {
                events.push(Event::Dies(who));
            }
            if lossy && self.has(who) && !self.ended[who] {
                events.push(Event::LeaseEnds(who));
            }
        }
        events.extend((0..self.late.len()).map(Event::Comes));
        if self.record.is_calling() && !self.call_over {
            events.push(Event::CallEnds);
        }
        events
    }

    fn apply(&mut self, rules: &Rules, event: Event) -> Result<(), String> {
        let before = self.record.clone();
        match event {
            Event::Try(who, fate) => {
                let tries = Command::Try(self.want(rules, who));
                self.phases[who] = match self.command(rules, who, tries, fate) {
                    Some(Reply::Held) => Phase::Holds,
                    Some(_) => Phase::Out,
                    None if rules.defect == Defect::Presumes => Phase::Holds,
                    None => Phase::Leaves,
                };
            }
            Event::Wait(who, fate) => {
                let waits = Command::Wait(self.want(rules, who));
                let reply = self.command(rules, who, waits, fate);
                self.phases[who] = match reply {
                    Some(Reply::Held) => Phase::Holds,
                    _ => Phase::Waits,
                };
                // Its lease begins anew with this request.
                self.ended[who] &= reply != Some(Reply::Held);
            }
            Event::Renew(who, fate) => {
                let renew = Command::Renew(self.want(rules, who));
                match self.command(rules, who, renew, fate) {
                    Some(Reply::Held) => self.ended[who] = false,
                    Some(_) => self.phases[who] = Phase::Done,
                    None => {}
                }
            }
            Event::Downgrade(who, fate) => {
                let token = self.token(rules, who);
                self.shares[who] = true;
                let to = Command::Downgrade(token, self.want(rules, who));
                match self.command(rules, who, to, fate) {
                    Some(Reply::Held) => {}
                    // It releases both.
                    _ => self.phases[who] = Phase::Leaves,
                }
            }
            Event::Leave(who, fate) => {
                let tokens = [self.shares[who], false].map(|shares| {
                    let mut other = self.clone();
                    other.shares[who] = shares;
                    other.token(rules, who)
                });
                let mut left = self.command(rules, who, Command::Leave(tokens[0]), fate);
                if self.shares[who] && left.is_some() {
                    left = self.command(rules, who, Command::Leave(tokens[1]), Fate::Replied);
                }
                self.phases[who] = match left {
                    Some(_) => Phase::Done,
                    None => Phase::Leaves,
                };
            }
            Event::Comes(at) => {
                let (record, inserts) = self.late.remove(at);
                let blindly = rules.defect == Defect::SwapsBlindly;
                if !inserts || self.is_absent() || blindly {
                    self.write(rules, record);
                }
            }
            Event::LeaseEnds(who) => {
                self.faults -= 1;
                self.ended[who] = true;
                if self.phases[who] == Phase::Holds {
                    self.phases[who] = Phase::Leaves;
                }
            }
            Event::Dies(who) => {
                self.faults -= 1;
                self.phases[who] = Phase::Dead;
            }
            Event::CallEnds => self.call_over = true,
        }
        self.follow_order(&before)?;
        self.exclude(rules)
    }

    /// Those that rely on their holds fit together.
    fn exclude(&self, rules: &Rules) -> Result<(), String> {
        let holds = |who: &usize| self.phases[*who] == Phase::Holds;
        let rely: Vec<_> = (0..self.phases.len()).filter(holds).collect();
        let limits = rely.iter().map(|who| self.token(rules, *who).limit());
        let lowest = limits.min().unwrap_or(Limit::UNLIMITED);
        match rely.is_empty() || lowest.fits(rely.len() - 1, lowest) {
            true => Ok(()),
            false => Err(format!("{rely:?} hold it together")),
        }
    }

    /// None is granted the lock before one that waits in front of it.
    fn follow_order(&mut self, before: &Record) -> Result<(), String> {
        let of = |token: Token| token.process().0 as usize;
        let last = self.order.iter().copied().max().unwrap_or_default();
        let new = |token: Token| !before.waiters.iter().any(|it| it.token == token);
        for waiter in &self.record.waiters {
            if new(waiter.token) {
                self.order[of(waiter.token)] = last + 1;
            }
        }
        let waiting = self
            .record
            .waiters
            .iter()
            .map(|it| self.order[of(it.token)]);
        let first = waiting.clone().min().unwrap_or(u8::MAX);
        let granted = self.record.holders.iter().filter(|it| it.granted);
        let was_waiting = |it: &&Holder| before.waiters.iter().any(|old| old.token == it.token);
        for holder in granted.filter(was_waiting) {
            if self.order[of(holder.token)] > first {
                return Err(format!("{:?} passes another", holder.token));
            }
        }
        if !waiting.is_sorted() {
            return Err("the line is not in order".to_owned());
        }
        // Only the order matters, so that there is an end of states.
        let waits = |who: usize| self.record.waiters.iter().any(|it| of(it.token) == who);
        let places: Vec<_> = self.record.waiters.iter().map(|it| of(it.token)).collect();
        self.order = (0..self.phases.len())
            .map(|who| match waits(who) {
                true => places
                    .iter()
                    .position(|it| *it == who)
                    .map_or(0, |at| at as u8 + 1),
                false => 0,
            })
            .collect();
        Ok(())
    }

    /// Once no more faults occur, all that live get the lock.
    fn drain(&self, rules: &Rules) -> Result<(), String> {
        let mut world = self.clone();
        (world.faults, world.late) = (0, Vec::new());
        for _ in 0..12 {
            for who in 0..world.phases.len() {
                for other in 0..world.phases.len() {
                    let lives = matches!(world.phases[other], Phase::Holds | Phase::Waits);
                    world.ended[other] = !lives && world.has(other);
                }
                match world.phases[who] {
                    Phase::Holds | Phase::Leaves => {
                        world.apply(rules, Event::Leave(who, Fate::Replied))?
                    }
                    Phase::Waits => world.apply(rules, Event::Wait(who, Fate::Replied))?,
                    _ => {}
                }
            }
            world.call_over = world.record.is_calling();
        }
        let waits = |phase: &Phase| matches!(phase, Phase::Waits | Phase::Holds);
        match world.phases.iter().any(waits) {
            true => Err(format!("one waits for ever: {world:?}")),
            false => Ok(()),
        }
    }
}

/// Visits all states. Returns their number, or the first fault.
fn explore(rules: &Rules, faults: u8) -> Result<usize, String> {
    let start = World::new(rules, faults);
    let mut seen = HashSet::from([start.clone()]);
    let mut left = vec![(start, Vec::new())];
    while let Some((world, path)) = left.pop() {
        world
            .drain(rules)
            .map_err(|fault| format!("{fault} after {path:?}"))?;
        for event in world.events(rules) {
            let (mut next, mut path) = (world.clone(), path.clone());
            path.push(event);
            let applied = next.apply(rules, event);
            applied.map_err(|fault| format!("{fault} after {path:?}"))?;
            if seen.insert(next.clone()) {
                left.push((next, path));
            }
        }
    }
    Ok(seen.len())
}

const READER: u16 = 2047;

/// `LOCK_FULL=1` allows more faults.
#[test]
fn holders_exclude_each_other_in_every_order() {
    let more = u8::from(std::env::var_os("LOCK_FULL").is_some());
    let scenes: [(&'static [u16], u8); 5] = [
        (&[1, 1], 3),
        (&[1, 1, 1], 1),
        (&[1, READER, READER], 1),
        (&[2, 2, 2], 1),
        (&[2, 1, READER], 1),
    ];
    for (limits, faults) in scenes {
        let defect = Defect::None;
        let states = explore(&Rules { limits, defect }, faults + more);
        let states = states.unwrap_or_else(|fault| panic!("{limits:?}: {fault}"));
        assert!(states > 1000, "{limits:?}: only {states} states");
    }
}

#[test]
fn defects_are_found() {
    for defect in [Defect::JudgesEarly, Defect::SwapsBlindly, Defect::Presumes] {
        let limits = &[1, 1];
        assert!(explore(&Rules { limits, defect }, 2).is_err());
    }
}
