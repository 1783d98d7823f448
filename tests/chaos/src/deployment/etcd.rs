//! etcd: one member, or three.

use std::time::Duration;

use crate::fault::Kind;
use lock_test_support::etcd::Etcd;
use lock_test_support::time::millis;

use super::replicated::Servers;

impl Servers for Etcd {
    const SCHEME: &str = "etcd";
    // It rounds leases up to seconds, and looks twice a second which have ended.
    const TTL: Duration = millis(1500);
    const DISTURBANCES: &[Kind] = &[Kind::HistoryCompacted];

    fn start(servers: usize) -> Self {
        match servers {
            1 => Self::start(),
            _ => Self::three_behind_proxies(),
        }
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

    fn disturb(&self, _: Kind) {
        // Without a majority it changes nothing.
        self.compact();
    }

    fn clear(&self) {
        self.clear();
    }

    fn clients(&self, number: usize) -> Vec<String> {
        self.clients(number)
    }

    fn leftovers(&self) -> Vec<String> {
        self.leftovers()
    }
}
