//! ZooKeeper: one server, or an ensemble of three.

use std::time::Duration;

use lock_test_support::time::millis;
use lock_test_support::zookeeper::ZooKeeper;

use super::replicated::Servers;

/// Starts an ensemble that waits that number of ticks of 100 ms for a server that is silent.
pub fn ensemble(servers: usize, sync_limit: u32) -> ZooKeeper {
    let options = format!("syncLimit={sync_limit}");
    let mut ensemble = ZooKeeper::behind_proxies(servers, millis(100), &options);
    ensemble.warm_up();
    ensemble
}

impl Servers for ZooKeeper {
    const SCHEME: &str = "zookeeper";
    const TTL: Duration = millis(800);

    fn start(servers: usize) -> Self {
        ensemble(servers, 10)
    }

    fn port(&self, number: usize) -> u16 {
        self.port(number)
    }

    fn pause(&mut self, number: usize) {
        self.pause(number);
    }

    fn resume(&mut self, number: usize) {
        self.resume(number);
    }

    fn kill(&mut self, number: usize) {
        self.kill(number);
    }

    fn restart(&mut self, number: usize) {
        self.restart(number);
    }

    fn part(&self, number: usize) {
        self.part(number);
    }

    fn rejoin(&self) {
        self.rejoin();
    }

    fn clear(&self) {
        self.leave_claims();
    }

    fn serving(&self) -> Option<usize> {
        self.leader_now()
    }

    fn leftovers(&self) -> Vec<String> {
        self.claims()
    }
}
