//! The processes that compete for the locks.

use std::time::Duration;

use crate::order::Order;
use crate::support::clocks::{Clocks, Hand};
use crate::support::time::millis;
use crate::support::worker::Worker;
use crate::worker::start;

const LONG: Duration = millis(90_000);

pub struct Crew {
    /// What each is told; but where, and who it is.
    order: Order,
    seats: Vec<Seat>,
    next: u32,
}

/// Where one process sits after the other.
struct Seat {
    process: Worker,
    urls: String,
    environment: Environment,
    /// Those of its machine, unless it has others.
    clocks: Clocks,
    workers: Vec<u32>,
}

/// What is set for its processes.
pub type Environment = Vec<(&'static str, String)>;

impl Crew {
    /// With what each seat connects to.
    pub fn start(order: Order, seats: Vec<(String, Environment)>) -> Self {
        let mut crew = Self {
            order,
            seats: Vec::new(),
            next: 0,
        };
        for (urls, mut environment) in seats {
            let clocks = Clocks::new();
            if environment.is_empty() {
                environment.extend(clocks.environment());
            }
            let (process, workers) = crew.process(&urls, &environment);
            crew.seats.push(Seat {
                process,
                urls,
                environment,
                clocks,
                workers,
            });
        }
        for seat in &crew.seats {
            seat.process.expect("ready", LONG);
        }
        crew
    }

    fn process(&mut self, urls: &str, environment: &Environment) -> (Worker, Vec<u32>) {
        let first = self.next;
        self.next += self.order.managers;
        let order = Order {
            urls: urls.to_owned(),
            first,
            seed: self.order.seed.wrapping_add(u64::from(first)),
            ..self.order.clone()
        };
        (start(&order, environment), (first..self.next).collect())
    }

    /// How many workers there have been.
    pub fn count(&self) -> u32 {
        self.next
    }

    pub fn workers(&self, seat: usize) -> Vec<u32> {
        self.seats[seat].workers.clone()
    }

    pub fn pause(&self, seat: usize) {
        self.seats[seat].process.pause();
    }

    pub fn resume(&self, seat: usize) {
        self.seats[seat].process.resume();
    }

    /// Its machine has slept for so long.
    pub fn sleep(&self, seat: usize, time: Duration) {
        self.seats[seat]
            .clocks
            .forward(&[Hand::Wall, Hand::Boot], time);
    }

    pub fn drop_runtime(&mut self, seat: usize) {
        self.seats[seat].process.try_order("drop");
    }

    pub fn kill(&mut self, seat: usize) {
        self.seats[seat].process.kill();
    }

    /// Somebody else takes the seat of who was killed.
    pub fn replace(&mut self, seat: usize) {
        let Seat {
            urls, environment, ..
        } = &self.seats[seat];
        let (urls, environment) = (urls.clone(), environment.clone());
        let (process, workers) = self.process(&urls, &environment);
        self.seats[seat].process = process;
        self.seats[seat].workers = workers;
    }

    /// Has all come to their end; says who did not.
    pub fn end(&mut self) -> Vec<String> {
        for seat in &mut self.seats {
            seat.process.try_order("end");
        }
        let mut left = Vec::new();
        for seat in &mut self.seats {
            let event = || seat.process.event(LONG);
            let over = std::iter::from_fn(event).any(|event| event == "over");
            if !over {
                left.push(format!(
                    "workers {:?} did not come to their end",
                    seat.workers
                ));
                seat.process.kill();
            }
        }
        left
    }
}
