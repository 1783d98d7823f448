//! A server that a schedule kills, freezes and starts again.

use lock_test_support::clocks::Clocks;
use lock_test_support::postgres::Postgres;
use lock_test_support::server::Server;

pub trait Host {
    fn pause(&mut self);
    fn resume(&mut self);

    /// Kills the server at once, as a crash does.
    fn kill(&mut self);

    fn restart(&mut self);

    /// Deletes all locks, after they were reported as leftovers.
    fn clear(&mut self);

    /// Returns the connected clients, each with ` addr=127.0.0.1:` and its port.
    fn clients(&self) -> Vec<String>;

    /// Returns the clocks of a server that was started with its own.
    fn clocks(&self) -> Option<&Clocks> {
        None
    }

    /// Returns the server if it is one of Redis: only these lose their data and obey commands.
    fn redis(&mut self) -> Option<&mut Server> {
        None
    }
}

impl Host for Server {
    fn pause(&mut self) {
        self.pause();
    }

    fn resume(&mut self) {
        self.resume();
    }

    fn kill(&mut self) {
        self.kill();
    }

    fn restart(&mut self) {
        self.restart();
    }

    fn clear(&mut self) {
        let _ = self.try_query::<()>("FLUSHALL");
    }

    fn clients(&self) -> Vec<String> {
        self.clients()
    }

    fn clocks(&self) -> Option<&Clocks> {
        self.clocks()
    }

    fn redis(&mut self) -> Option<&mut Server> {
        Some(self)
    }
}

impl Host for Postgres {
    fn pause(&mut self) {
        self.pause();
    }

    fn resume(&mut self) {
        self.resume();
    }

    fn kill(&mut self) {
        self.kill();
    }

    fn restart(&mut self) {
        self.restart();
    }

    fn clear(&mut self) {
        self.leave_locks();
    }

    fn clients(&self) -> Vec<String> {
        self.clients()
    }

    fn clocks(&self) -> Option<&Clocks> {
        self.clocks()
    }
}
