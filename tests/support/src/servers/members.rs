//! etcd and ZooKeeper.

use super::Servers;
use crate::clocks::Clocks;
use crate::members::Replicated;

impl<T: Replicated> Servers for T {
    fn urls_at(&self, ports: &[u16]) -> Vec<String> {
        let hosts: Vec<_> = ports
            .iter()
            .map(|port| format!("127.0.0.1:{port}"))
            .collect();
        vec![format!("{}://{}", T::SCHEME, hosts.join(","))]
    }

    fn ports(&self) -> Vec<u16> {
        (0..self.size()).map(|number| self.port(number)).collect()
    }

    fn pause(&mut self, number: usize) {
        (**self).pause(number);
    }

    fn resume(&mut self, number: usize) {
        (**self).resume(number);
    }

    fn kill(&mut self, number: usize) {
        (**self).kill(number);
    }

    fn restart(&mut self, number: usize) {
        self.start_again(number);
    }

    fn part(&mut self, number: usize) {
        self.part_from_others(number);
    }

    fn rejoin(&mut self) {
        (**self).rejoin();
    }

    fn clients(&self, number: usize) -> Vec<String> {
        (**self).clients(number)
    }

    fn clocks(&self, _: usize) -> Option<&Clocks> {
        None
    }

    fn delete(&self, key: &str) {
        self.delete_line(&format!("lock:{key}"));
    }

    fn steal(&self, key: &str) {
        self.steal_line(&format!("lock:{key}"));
    }

    fn leftovers(&self) -> Vec<String> {
        self.all_claims()
    }

    fn clear(&mut self, _: usize) {
        self.delete_all_claims();
    }
}
