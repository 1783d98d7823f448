//! The processes that compete for the locks.

use std::time::Duration;

use crate::instructions::Instructions;
use crate::revocation::Demand;
use crate::worker::start;
use lock_test_support::clocks::{Clock, Clocks};
use lock_test_support::servers::Servers;
use lock_test_support::time::millis;
use lock_test_support::worker::Worker;

const LONG: Duration = millis(90_000);

pub struct WorkerPool {
    /// The instructions for each process, without its URLs and numbers.
    instructions: Instructions,
    processes: Vec<ProcessSlot>,
    next: u32,
}

/// A slot for one process at a time; the replacement of a killed one keeps the URLs and the clocks.
struct ProcessSlot {
    running: Worker,
    urls: String,
    environment: Environment,
    /// The clocks of its machine, unless the environment sets others.
    clocks: Clocks,
    workers: Vec<u32>,
}

/// The environment variables of its processes.
pub type Environment = Vec<(&'static str, String)>;

impl WorkerPool {
    /// Starts one process for each pair of URLs and environment.
    pub fn start(instructions: Instructions, processes: Vec<(String, Environment)>) -> Self {
        let mut pool = Self {
            instructions,
            processes: Vec::new(),
            next: 0,
        };
        for (position, (urls, mut environment)) in processes.into_iter().enumerate() {
            let clocks = Clocks::correct();
            if environment.is_empty() {
                environment.extend(clocks.environment());
            }
            let (running, workers) = pool.process(&urls, &environment, Some(position));
            pool.processes.push(ProcessSlot {
                running,
                urls,
                environment,
                clocks,
                workers,
            });
        }
        for process in &pool.processes {
            process.running.expect("ready");
        }
        pool
    }

    /// Starts a process: the first one at `position`, or a replacement.
    fn process(
        &mut self,
        urls: &str,
        environment: &Environment,
        position: Option<usize>,
    ) -> (Worker, Vec<u32>) {
        let first = self.next;
        self.next += self.instructions.managers;
        let instructions = Instructions {
            urls: urls.to_owned(),
            first,
            seed: self.instructions.seed.wrapping_add(u64::from(first)),
            workload: self.instructions.workload.of_process(position),
            ..self.instructions.clone()
        };
        (
            start(&instructions, environment),
            (first..self.next).collect(),
        )
    }

    /// Returns the number of workers started so far.
    pub fn count(&self) -> u32 {
        self.next
    }

    pub fn workers(&self, process: usize) -> Vec<u32> {
        self.processes[process].workers.clone()
    }

    /// Freezes a process that uses these servers.
    pub fn pause(&self, process: usize, servers: &dyn Servers) {
        servers.stop(&self.processes[process].running);
    }

    pub fn resume(&self, process: usize) {
        self.processes[process].running.resume();
    }

    /// Advances the clocks of a process as if its machine had slept for `time`.
    pub fn sleep(&self, process: usize, time: Duration) {
        self.processes[process]
            .clocks
            .forward(&[Clock::Wall, Clock::Boot], time);
    }

    pub fn drop_runtime(&mut self, process: usize) {
        self.processes[process].running.try_order("drop");
    }

    /// Has a process revoke a lock, unless it has ended.
    pub fn revoke(&mut self, process: usize, demand: &Demand) {
        let demand = serde_json::to_string(demand).unwrap();
        let order = format!("revoke {demand}");
        self.processes[process].running.try_order(&order);
    }

    pub fn kill(&mut self, process: usize) {
        self.processes[process].running.kill();
    }

    /// Ends a process in an ordinary way, while its calls are under way.
    pub fn leave(&mut self, process: usize) {
        let running = &mut self.processes[process].running;
        running.try_order("leave");
        running.succeeds();
    }

    /// Starts a new process in the place of one that has ended.
    pub fn replace(&mut self, process: usize) {
        let ProcessSlot {
            urls, environment, ..
        } = &self.processes[process];
        let (urls, environment) = (urls.clone(), environment.clone());
        let (running, workers) = self.process(&urls, &environment, None);
        self.processes[process].running = running;
        self.processes[process].workers = workers;
    }

    /// Ends all workers. Returns a message for each process that did not end.
    pub fn end(&mut self) -> Vec<String> {
        for process in &mut self.processes {
            process.running.try_order("end");
        }
        let mut left = Vec::new();
        for process in &mut self.processes {
            let event = || process.running.event(LONG);
            let over = std::iter::from_fn(event).any(|event| event == "over");
            if !over {
                left.push(format!("workers {:?} did not end", process.workers));
                process.running.kill();
            }
        }
        left
    }
}
