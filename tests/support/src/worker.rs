//! A second process: the same test, started again, or a program in another language.

use std::fmt::Display;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use crate::clocks::Clocks;
use crate::disk::Disk;
use crate::server::{signal, stop};
use crate::time::{PATIENCE, eventually};

const ARGUMENTS: &str = "LOCK_TEST_WORKER";
/// Marks events, since the test runner writes to the same lines.
const MARK: &str = "@ ";

/// Reports events and takes orders, one per line. Killed when dropped.
pub struct Worker {
    process: Child,
    orders: ChildStdin,
    events: Receiver<String>,
}

impl Worker {
    /// Runs the calling test in another process, where `arguments()` returns these arguments.
    pub fn start<T: Fn()>(test: T, arguments: &[&str]) -> Self {
        Self::run(again(test, arguments))
    }

    /// Like [`start`](Self::start), with these clocks.
    pub fn start_by<T: Fn()>(test: T, arguments: &[&str], clocks: &Clocks) -> Self {
        let mut command = again(test, arguments);
        clocks.preload(&mut command);
        Self::run(command)
    }

    /// Like [`start`](Self::start), with this disk.
    pub fn start_on<T: Fn()>(test: T, arguments: &[&str], disk: &Disk) -> Self {
        let mut command = again(test, arguments);
        disk.preload(&mut command);
        Self::run(command)
    }

    /// Runs any program that prints its events after the mark.
    pub fn run(mut command: Command) -> Self {
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let orders = process.stdin.take().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let (events, receiver) = channel();
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if let Some((_, event)) = line.split_once(MARK) {
                    let _ = events.send(event.to_owned());
                }
            }
        });
        Self {
            process,
            orders,
            events: receiver,
        }
    }

    /// Returns the rest of the line of the next event, which must be `event`.
    #[track_caller]
    pub fn expect(&self, event: &str) -> String {
        let reported = self.events.recv_timeout(PATIENCE);
        let reported = reported.unwrap_or_else(|error| panic!("no `{event}`: {error}"));
        match reported.strip_prefix(event) {
            Some(rest) => rest.trim().to_owned(),
            None => panic!("`{reported}` instead of `{event}`"),
        }
    }

    /// Returns the next event; `None` if the process has ended, or none came within `limit`.
    pub fn event(&self, limit: Duration) -> Option<String> {
        self.events.recv_timeout(limit).ok()
    }

    pub fn order(&mut self, order: &str) {
        writeln!(self.orders, "{order}").unwrap();
    }

    /// Sends an order. Returns `true` if the process could still take it.
    pub fn try_order(&mut self, order: &str) -> bool {
        writeln!(self.orders, "{order}").is_ok()
    }

    pub fn signal(&self, name: &str) {
        signal(self.process.id(), name);
    }

    pub fn pause(&self) {
        stop(self.process.id());
    }

    pub fn resume(&self) {
        signal(self.process.id(), "CONT");
    }

    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    #[track_caller]
    pub fn ends(&mut self) -> ExitStatus {
        let mut status = None;
        eventually("the process ends", || {
            status = self.process.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }

    #[track_caller]
    pub fn succeeds(&mut self) {
        let status = self.ends();
        assert!(status.success(), "the process ended with {status}");
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn again<T: Fn()>(_test: T, arguments: &[&str]) -> Command {
    let (_, name) = std::any::type_name::<T>().split_once("::").unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(ARGUMENTS, arguments.join("\n"))
        // Keeps the process's memory from growing by arenas that glibc adds for contended threads.
        .env("MALLOC_ARENA_MAX", "1");
    command
}

/// Returns the arguments of a worker process; `None` in the test itself.
pub fn arguments() -> Option<Vec<String>> {
    let arguments = std::env::var(ARGUMENTS).ok()?;
    Some(arguments.split('\n').map(str::to_owned).collect())
}

/// Runs a future in the worker process, on a runtime of its own with two threads.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

/// Reports an event from the worker process to the test.
pub fn report_event(event: impl Display) {
    println!("{MARK}{event}");
}

/// Blocks the worker process until the test sends its next order.
pub fn next_order() -> String {
    let mut order = String::new();
    std::io::stdin().read_line(&mut order).unwrap();
    order.trim().to_owned()
}
