//! A server that a schedule kills, freezes and starts again.

use std::path::PathBuf;

use lock_test_support::clocks::Clocks;
use lock_test_support::postgres::Postgres;
use lock_test_support::server::Server;

pub trait Host {
    fn pause(&mut self);
    fn resume(&mut self);

    /// Kills the server at once, as a crash does.
    fn kill(&mut self);

    /// Kills the server, and deletes its data.
    fn forget(&mut self);

    fn restart(&mut self);

    /// Deletes all locks, after they were reported as leftovers.
    fn clear(&mut self);

    /// Returns the connected clients, each with ` addr=127.0.0.1:` and its port.
    fn clients(&self) -> Vec<String>;

    /// Returns the clocks that the server was started with.
    fn clocks(&self) -> &Clocks;

    /// Returns the socket for commands to Redis.
    fn socket(&self) -> PathBuf;
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

    fn forget(&mut self) {
        self.forget();
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

    fn clocks(&self) -> &Clocks {
        self.clocks()
    }

    fn socket(&self) -> PathBuf {
        self.socket()
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

    fn forget(&mut self) {
        unreachable!("what it granted is on its disk");
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

    fn clocks(&self) -> &Clocks {
        unreachable!("its clock is the machine's");
    }

    fn socket(&self) -> PathBuf {
        unreachable!("it obeys no commands of Redis");
    }
}
