//! A network of one manager, which can fail.

use lock_test_support::proxy::Proxy;
use lock_test_support::time::{millis, within};
use std::time::Duration;

/// Long enough for a process to connect again, and to repeat what was not answered.
pub const AGAIN: Duration = millis(6000);

/// The proxies in front of all servers.
pub struct Network(pub Vec<Proxy>);

impl Network {
    pub fn each(&self, fault: fn(&Proxy)) {
        self.0.iter().for_each(fault);
    }

    /// Returns the sum over all proxies.
    pub fn count(&self, count: fn(&Proxy) -> usize) -> usize {
        self.0.iter().map(count).sum()
    }

    /// Waits until the sum is greater than it was.
    pub async fn until_more_than(&self, before: usize, count: fn(&Proxy) -> usize) {
        let more = async {
            while self.count(count) <= before {
                tokio::time::sleep(millis(3)).await;
            }
        };
        within(AGAIN, more).await;
    }
}
