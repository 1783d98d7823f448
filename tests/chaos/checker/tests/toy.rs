//! Simulated locks: generates a correct history from a seed.

use std::collections::VecDeque;

use crate::book::Write;
use crate::event::{Event, How, Way, What};
use crate::fault::{Fault, Keys, Kind};
use crate::history::{History, Promises};
use crate::support::dice::Dice;

pub const MS: u64 = 1_000_000;
pub const TTL: u64 = 800 * MS;
const LONG: u64 = 60_000 * MS;
const WORKERS: u32 = 4;
const KEYS: u32 = 2;
/// Callers of each worker for each key.
const CALLERS: u32 = 3;
const FROM: u64 = 5000 * MS;
const FOR: u64 = 4000 * MS;

/// The deviations that a simulated history may contain.
#[derive(Clone, Copy, Default)]
pub struct World {
    /// Processes are stopped while they hold a lock.
    pub stops: bool,
    /// Servers forget locks that are held.
    pub forgets: bool,
    /// The waiter that arrived last is served first.
    pub last_first: bool,
}

pub fn history(world: World, seed: u64) -> History {
    let mut toy = Toy {
        world,
        dice: Dice::with(seed),
        history: History {
            promises: Promises {
                order: true,
                fenced: true,
                ..Promises::default()
            },
            ..History::default()
        },
        calls: vec![0; WORKERS as usize + 1],
        writes: Vec::new(),
        token: 0,
    };
    let ends = (0..KEYS).map(|key| toy.run(key)).max();
    for worker in 1..=WORKERS {
        let (threads, tasks) = (0, 0);
        toy.tell(ends.unwrap(), worker, 0, What::Over { threads, tasks });
    }
    toy.keep_books();
    toy.history
}

struct Toy {
    world: World,
    dice: Dice,
    history: History,
    /// The number of calls that each worker has made.
    calls: Vec<u64>,
    writes: Vec<Write>,
    token: u64,
}

/// A caller that makes one call after the other.
struct Caller {
    worker: u32,
    comes: u64,
}

struct Waiting {
    caller: usize,
    worker: u32,
    call: u64,
    way: Way,
    until: u64,
}

impl Toy {
    fn tell(&mut self, at: u64, worker: u32, call: u64, what: What) {
        let boot = at + 77 * MS;
        let event = Event {
            at,
            boot,
            worker,
            call,
            what,
        };
        self.history.events.push(event);
    }

    fn ends(&mut self, at: u64, worker: u32, call: u64, how: How) {
        self.tell(at, worker, call, What::Ended { how });
    }

    /// Simulates one lock. Returns the time at which all calls have ended.
    fn run(&mut self, key: u32) -> u64 {
        let mut callers: Vec<_> = (0..WORKERS * CALLERS)
            .map(|n| Caller {
                worker: n % WORKERS + 1,
                comes: FROM + self.dice.roll(50) * MS,
            })
            .collect();
        let mut lines: Vec<VecDeque<Waiting>> = (0..=WORKERS).map(|_| VecDeque::new()).collect();
        let mut queue: VecDeque<u32> = VecDeque::new();
        let mut free = FROM;
        loop {
            self.arrive(key, free, &mut callers, &mut lines, &mut queue, None);
            let next = match self.world.last_first {
                true => queue.pop_back(),
                false => queue.pop_front(),
            };
            let Some(worker) = next else {
                let next = callers.iter().map(|caller| caller.comes).min().unwrap();
                if next == u64::MAX {
                    return free;
                }
                free = free.max(next);
                continue;
            };
            // One turn of the worker.
            for _ in 0..=self.dice.roll(3) {
                let Some(waiting) = lines[worker as usize].pop_front() else {
                    break;
                };
                if waiting.until <= free {
                    let at = waiting.until + self.dice.roll(3) * MS;
                    self.ends(at, worker, waiting.call, How::Busy);
                    callers[waiting.caller].comes = self.again(at);
                    continue;
                }
                let (passes, over) = self.hold(key, free + 300_000, &waiting);
                callers[waiting.caller].comes = self.again(over);
                free = passes;
                let busy = Some(worker);
                self.arrive(key, free, &mut callers, &mut lines, &mut queue, busy);
            }
            if !lines[worker as usize].is_empty() {
                queue.push_back(worker);
            }
        }
    }

    fn again(&mut self, at: u64) -> u64 {
        let comes = at + (1 + self.dice.roll(20)) * MS;
        if comes > FROM + FOR { u64::MAX } else { comes }
    }

    /// Adds the callers that have arrived by `by` to the queues.
    fn arrive(
        &mut self,
        key: u32,
        by: u64,
        callers: &mut [Caller],
        lines: &mut [VecDeque<Waiting>],
        queue: &mut VecDeque<u32>,
        holder: Option<u32>,
    ) {
        let mut coming: Vec<usize> = (0..callers.len()).collect();
        coming.retain(|caller| callers[*caller].comes <= by);
        coming.sort_by_key(|caller| callers[*caller].comes);
        for caller in coming {
            let Caller { worker, comes } = callers[caller];
            self.calls[worker as usize] += 1;
            let call = self.calls[worker as usize];
            let ways = [Way::Waits, Way::Guard, Way::Continues, Way::Fails];
            let way = match self.dice.roll(12) {
                0 => Way::TriesOnce,
                1 => Way::Unrenewed,
                any => ways[any as usize % ways.len()],
            };
            let wait = match (way, self.dice.one_in(3)) {
                (Way::TriesOnce, _) => 0,
                (_, true) => LONG,
                _ => (20 + self.dice.roll(1000)) * MS,
            };
            let ttl = TTL;
            let asked = What::Asked {
                key,
                way,
                ttl,
                wait,
            };
            self.tell(comes, worker, call, asked);
            if way == Way::TriesOnce {
                self.ends(comes + MS / 2, worker, call, How::Busy);
                callers[caller].comes = self.again(comes + MS / 2);
                continue;
            }
            callers[caller].comes = u64::MAX;
            let line = &mut lines[worker as usize];
            if line.is_empty() && holder != Some(worker) {
                queue.push_back(worker);
            }
            line.push_back(Waiting {
                caller,
                worker,
                call,
                way,
                until: comes + wait,
            });
        }
    }

    /// Runs a body. Returns the time at which the lock is free for the next call, and at which this call has
    /// ended.
    fn hold(&mut self, key: u32, begin: u64, waiting: &Waiting) -> (u64, u64) {
        let Waiting {
            worker, call, way, ..
        } = *waiting;
        let stops = self.world.stops && self.dice.one_in(100);
        let forgets = self.world.forgets && !stops && self.dice.one_in(100);
        let lease = TTL - 10 * MS;
        self.tell(begin, worker, call, What::Acquired { left: lease });
        self.token += 1 + self.dice.roll(5);
        let token = self.token;
        let asked = begin + 20_000;
        self.tell(asked + 300_000, worker, call, What::Token { asked, token });
        let mut at = begin + 400_000;
        let mut left = lease;
        for _ in 0..=self.dice.roll(3) {
            at += (100 + self.dice.roll(4000)) * 1000;
            left = lease - (at - begin);
            self.tell(at, worker, call, What::Step { left });
            self.write(at + 50_000, worker, call, key, token);
        }
        if stops {
            let (from, for_) = (at + 100_000, TTL + self.dice.roll(500) * MS);
            let until = from + for_;
            self.tell(until + MS, worker, 0, What::Stalled { for_ });
            self.fault(Kind::WorkerStopped, from, until, vec![worker], None);
            self.tell(until + 10_000, worker, call, What::Step { left: 0 });
            self.write(until + 50_000, worker, call, key, token);
            self.ends(until + 2 * MS, worker, call, How::Lost);
            return (at + left + 20 * MS, until + 2 * MS);
        }
        if forgets {
            let forgotten = at + 100_000;
            let keys = Some(Keys::One(key));
            self.fault(Kind::KeyDeleted, forgotten, forgotten + MS, vec![], keys);
            let (step, over) = (at + 150 * MS, at + 200 * MS);
            let left = lease - (step - begin);
            self.tell(step, worker, call, What::Step { left });
            self.ends(over, worker, call, How::Lost);
            return (forgotten + 2 * MS, over);
        }
        let asked = at + 60_000;
        self.tell(asked + 10_000, worker, call, What::Token { asked, token });
        let over = asked + 300_000;
        let how = match way {
            Way::Fails => How::Failed,
            _ => How::Done,
        };
        self.ends(over + 200_000, worker, call, how);
        (over, over + 200_000)
    }

    fn fault(
        &mut self,
        kind: Kind,
        from: u64,
        until: u64,
        workers: Vec<u32>,
        forgotten: Option<Keys>,
    ) {
        self.history.faults.push(Fault {
            kind,
            target: String::new(),
            from,
            until,
            workers,
            forgotten,
            away: false,
        });
    }

    fn write(&mut self, at: u64, worker: u32, call: u64, key: u32, token: u64) {
        self.writes.push(Write {
            at,
            worker,
            call,
            key,
            token,
            read: 0,
            found: 0,
            accepted: false,
        });
    }

    /// Applies all writes to the resource in the order of their times.
    fn keep_books(&mut self) {
        self.writes.sort_by_key(|write| write.at);
        let mut accounts = vec![(0, 0); KEYS as usize];
        for write in &mut self.writes {
            let (version, last) = &mut accounts[write.key as usize];
            (write.read, write.found) = (*version, *version);
            write.accepted = write.token >= *last;
            if write.accepted {
                (*version, *last) = (*version + 1, write.token);
            }
        }
        self.history.writes = std::mem::take(&mut self.writes);
    }
}
