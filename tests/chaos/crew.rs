//! The processes that compete for the locks.

use std::time::Duration;

use crate::order::Order;
use crate::support::clocks::{Clocks, Hand};
use crate::support::time::millis;
use crate::support::worker::Worker;
use crate::worker::start;

const LONG: Duration = millis(90_000);

pub struct Crew {
    /// The instructions for each process, without its URLs and numbers.
    order: Order,
    seats: Vec<Seat>,
    next: u32,
}

/// A slot for one process at a time; a replacement keeps the URLs and the clocks.
struct Seat {
    process: Worker,
    urls: String,
    environment: Environment,
    /// The clocks of its machine, unless the environment sets others.
    clocks: Clocks,
    workers: Vec<u32>,
}

/// The environment variables of its processes.
pub type Environment = Vec<(&'static str, String)>;

impl Crew {
    /// Starts one process per seat, with its URLs and environment.
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

    /// Returns the number of workers started so far.
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

    /// Advances the clocks of the seat as if its machine had slept for `time`.
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

    /// Starts a new process in the seat of one that was killed.
    pub fn replace(&mut self, seat: usize) {
        let Seat {
            urls, environment, ..
        } = &self.seats[seat];
        let (urls, environment) = (urls.clone(), environment.clone());
        let (process, workers) = self.process(&urls, &environment);
        self.seats[seat].process = process;
        self.seats[seat].workers = workers;
    }

    /// Ends all workers. Returns a message for each process that did not end.
    pub fn end(&mut self) -> Vec<String> {
        for seat in &mut self.seats {
            seat.process.try_order("end");
        }
        let mut left = Vec::new();
        for seat in &mut self.seats {
            let event = || seat.process.event(LONG);
            let over = std::iter::from_fn(event).any(|event| event == "over");
            if !over {
                left.push(format!("workers {:?} did not end", seat.workers));
                seat.process.kill();
            }
        }
        left
    }
}
