//! Simulated locks: generates a correct history from a seed.

use std::collections::VecDeque;

use crate::fault::{Fault, Keys, Kind};
use crate::history::{History, Promises};
use crate::journal::{CallKind, Event, EventKind, Outcome};
use crate::resource::Write;
use lock_test_support::rng::Rng;

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
        rng: Rng::with(seed),
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
        toy.record(
            ends.unwrap(),
            worker,
            0,
            EventKind::Exited { threads, tasks },
        );
    }
    toy.keep_books();
    toy.history
}

struct Toy {
    world: World,
    rng: Rng,
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
    kind: CallKind,
    until: u64,
}

impl Toy {
    fn record(&mut self, at: u64, worker: u32, call: u64, what: EventKind) {
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

    fn ends(&mut self, at: u64, worker: u32, call: u64, outcome: Outcome) {
        self.record(at, worker, call, EventKind::Ended { outcome });
    }

    /// Simulates one lock. Returns the time at which all calls have ended.
    fn run(&mut self, key: u32) -> u64 {
        let mut callers: Vec<_> = (0..WORKERS * CALLERS)
            .map(|n| Caller {
                worker: n % WORKERS + 1,
                comes: FROM + self.rng.below(50) * MS,
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
            for _ in 0..=self.rng.below(3) {
                let Some(waiting) = lines[worker as usize].pop_front() else {
                    break;
                };
                if waiting.until <= free {
                    let at = waiting.until + self.rng.below(3) * MS;
                    self.ends(at, worker, waiting.call, Outcome::Busy);
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
        let comes = at + (1 + self.rng.below(20)) * MS;
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
            let kinds = [
                CallKind::Waits,
                CallKind::Guard,
                CallKind::Continues,
                CallKind::Fails,
            ];
            let kind = match self.rng.below(12) {
                0 => CallKind::TriesOnce,
                1 => CallKind::Unrenewed,
                any => kinds[any as usize % kinds.len()],
            };
            let wait = match (kind, self.rng.one_in(3)) {
                (CallKind::TriesOnce, _) => 0,
                (_, true) => LONG,
                _ => (20 + self.rng.below(1000)) * MS,
            };
            let ttl = TTL;
            let called = EventKind::Called {
                key,
                others: Vec::new(),
                kind,
                lazy: false,
                ttl,
                wait,
            };
            self.record(comes, worker, call, called);
            if kind == CallKind::TriesOnce {
                self.ends(comes + MS / 2, worker, call, Outcome::Busy);
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
                kind,
                until: comes + wait,
            });
        }
    }

    /// Runs a body. Returns the time at which the lock is free for the next call, and at which this call has
    /// ended.
    fn hold(&mut self, key: u32, begin: u64, waiting: &Waiting) -> (u64, u64) {
        let Waiting {
            worker, call, kind, ..
        } = *waiting;
        let stops = self.world.stops && self.rng.one_in(100);
        let forgets = self.world.forgets && !stops && self.rng.one_in(100);
        let lease = TTL - 10 * MS;
        self.record(begin, worker, call, EventKind::Acquired { left: lease });
        self.token += 1 + self.rng.below(5);
        let token = self.token;
        let requested = begin + 20_000;
        self.record(
            requested + 300_000,
            worker,
            call,
            EventKind::Token { requested, token },
        );
        let mut at = begin + 400_000;
        let mut left = lease;
        for _ in 0..=self.rng.below(3) {
            at += (100 + self.rng.below(4000)) * 1000;
            left = lease - (at - begin);
            self.record(at, worker, call, EventKind::Step { left });
            self.write(at + 50_000, worker, call, key, token);
        }
        if stops {
            let (from, for_) = (at + 100_000, TTL + self.rng.below(500) * MS);
            let until = from + for_;
            self.record(until + MS, worker, 0, EventKind::Stalled { for_ });
            self.fault(Kind::WorkerStopped, from, until, vec![worker], None);
            self.record(until + 10_000, worker, call, EventKind::Step { left: 0 });
            self.write(until + 50_000, worker, call, key, token);
            self.ends(until + 2 * MS, worker, call, Outcome::Lost);
            return (at + left + 20 * MS, until + 2 * MS);
        }
        if forgets {
            let forgotten = at + 100_000;
            let keys = Some(Keys::One(key));
            self.fault(Kind::KeyDeleted, forgotten, forgotten + MS, vec![], keys);
            let (step, over) = (at + 150 * MS, at + 200 * MS);
            let left = lease - (step - begin);
            self.record(step, worker, call, EventKind::Step { left });
            self.ends(over, worker, call, Outcome::Lost);
            return (forgotten + 2 * MS, over);
        }
        let requested = at + 60_000;
        self.record(
            requested + 10_000,
            worker,
            call,
            EventKind::Token { requested, token },
        );
        let over = requested + 300_000;
        let outcome = match kind {
            CallKind::Fails => Outcome::Failed,
            _ => Outcome::Done,
        };
        self.ends(over + 200_000, worker, call, outcome);
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
            vain: false,
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
