//! Explores all reachable states, breadth first.

use crate::world::{Event, Setting, Violation, World};
use std::collections::HashSet;
use std::fmt;
use std::hash::{BuildHasherDefault, Hash, Hasher};

/// The result of a complete search.
#[derive(Default)]
pub struct Found {
    pub states: usize,
    /// The maximum of each of the times, in ticks, with its trace.
    pub most: [(u8, Trace); 6],
    /// The first violation.
    pub violation: Option<(Violation, Trace)>,
}

/// A sequence of events.
#[derive(Clone, Default)]
pub struct Trace(pub Vec<Event>);

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut tick = 1;
        write!(f, "  1:")?;
        for event in &self.0 {
            if matches!(event, Event::Tick | Event::TickMissed(_)) {
                tick += 1;
                write!(f, "\n{tick:3}:")?;
            }
            if *event != Event::Tick {
                write!(f, " {event:?};")?;
            }
        }
        Ok(())
    }
}

/// Explores all states, or until one is wrong.
pub fn search(setting: &Setting) -> Found {
    let mut violation = None;
    let mut most = [(0, 0); 6];
    let mut steps = Steps::new();
    let states = explore(setting, &mut steps, &mut |world, number| {
        for (most, time) in most.iter_mut().zip(world.times.all()) {
            if time > most.0 {
                *most = (time, number);
            }
        }
        violation = world.violations(setting).next();
        violation.is_none()
    });
    Found {
        states,
        most: most.map(|(time, number)| (time, steps.trace(setting, number))),
        violation: violation.map(|it| (it, steps.trace(setting, steps.last()))),
    }
}

/// Returns the shortest trace to a state that satisfies `like`, if there is one.
pub fn find(setting: &Setting, like: impl Fn(&World) -> bool) -> Option<Trace> {
    let mut steps = Steps::new();
    let mut is_there = false;
    explore(setting, &mut steps, &mut |world, _| {
        is_there = like(world);
        !is_there
    });
    is_there.then(|| steps.trace(setting, steps.last()))
}

/// Visits all states until `visit` returns `false`. Returns their number.
fn explore(
    setting: &Setting,
    steps: &mut Steps,
    visit: &mut dyn FnMut(&World, u32) -> bool,
) -> usize {
    let mut seen = Digests::default();
    let first = World::new(setting);
    seen.insert(digest(&first));
    let mut layer = vec![(0, first)];
    let mut goes_on = true;
    while !layer.is_empty() && goes_on {
        let mut next_layer = Vec::new();
        for (at, world) in &layer {
            let mut event = 0;
            world.next(setting, &mut |_, next| {
                event += 1;
                if goes_on && seen.insert(digest(&next)) {
                    let number = steps.add(*at, event - 1);
                    goes_on = visit(&next, number);
                    next_layer.push((number, next));
                }
            });
        }
        layer = next_layer;
    }
    seen.len()
}

/// The first way to each state: the number of its predecessor and of the event.
struct Steps(Vec<(u32, u16)>);

impl Steps {
    fn new() -> Self {
        Steps(vec![(0, 0)])
    }

    fn add(&mut self, from: u32, event: u16) -> u32 {
        self.0.push((from, event));
        self.last()
    }

    fn last(&self) -> u32 {
        self.0.len() as u32 - 1
    }

    fn trace(&self, setting: &Setting, mut number: u32) -> Trace {
        let mut path = Vec::new();
        while number > 0 {
            let (from, event) = self.0[number as usize];
            path.push(event);
            number = from;
        }
        let mut world = World::new(setting);
        let mut events = Vec::new();
        for event in path.into_iter().rev() {
            let (mut n, from) = (0, world);
            from.next(setting, &mut |happens, next| {
                if n == event {
                    events.push(happens);
                    world = next;
                }
                n += 1;
            });
        }
        Trace(events)
    }
}

pub(crate) fn digest(state: &impl Hash) -> u64 {
    let mut digest = Digest::default();
    state.hash(&mut digest);
    digest.finish()
}

/// A fast hash that is good enough for some millions of states. It mixes eight bytes at a time.
#[derive(Default)]
struct Digest {
    mixed: u64,
    bytes: u64,
    bits: u32,
}

impl Digest {
    fn mix(&mut self) {
        let mixed =
            u128::from(self.mixed ^ self.bytes ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93;
        self.mixed = (mixed as u64) ^ (mixed >> 64) as u64;
        (self.bytes, self.bits) = (0, 0);
    }
}

impl Hasher for Digest {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.bytes |= u64::from(*byte) << self.bits;
            self.bits += 8;
            if self.bits == u64::BITS {
                self.mix();
            }
        }
    }

    /// The number of an enum's variant: there are fewer than 256.
    fn write_isize(&mut self, number: isize) {
        self.write(&[number as u8]);
    }

    /// The length of a slice: they are as short.
    fn write_usize(&mut self, number: usize) {
        self.write(&[number as u8]);
    }

    fn finish(&self) -> u64 {
        let mut last = Digest { ..*self };
        last.mix();
        last.mixed
    }
}

pub(crate) type Digests = HashSet<u64, BuildHasherDefault<AsItIs>>;

/// The hasher for digests, which are hashes already.
#[derive(Default)]
pub(crate) struct AsItIs(u64);

impl Hasher for AsItIs {
    fn write(&mut self, _: &[u8]) {
        unreachable!("digests are numbers");
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
