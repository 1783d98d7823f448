//! For how long an ensemble lets sessions live, and locks in them.

use crate::engine::common::pace::MIN_TIMEOUT;
use crate::engine::error::EngineError;
use crate::engine::zookeeper::address::Address;
use crate::engine::zookeeper::conn::tries::Tries;
use crate::util::backoff::Backoff;
use crate::util::io_thread::IoThread;
use crate::util::time::{deadline_in, elapsed_since, now, sleep_until};
use std::time::Duration;
use tokio::time::Instant;

/// The shortest and the longest session timeout that an ensemble gives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionLimits {
    pub(crate) shortest: Duration,
    pub(crate) longest: Duration,
}

impl SessionLimits {
    /// Asks the servers, one after the other, for the shortest and the longest session. Returns them with the
    /// time that a server is to get for a connection at first.
    pub(crate) async fn ask(
        io: IoThread,
        address: &Address,
        deadline: Instant,
    ) -> Result<(SessionLimits, Duration), EngineError> {
        let login = address.credentials.get(io, deadline).await?;
        let mut limit = MIN_TIMEOUT;
        let mut backoff = Backoff::new(Duration::from_millis(5), Duration::from_millis(100));
        let mut tries = Tries::begin(address.hosts.len(), now());
        for (number, host) in address.hosts.iter().enumerate().cycle() {
            let left = deadline.saturating_duration_since(now());
            // A try that has no time says less than the one before.
            if left.is_zero() || (left < MIN_TIMEOUT && tries.include_all()) {
                break;
            }
            let limit_now = limit.min(left);
            let ask = async |timeout| address.negotiate(host, (timeout, &login), limit_now).await;
            let (longest, asked_at) = (Duration::from_millis(i32::MAX as u64), now());
            let asked = match ask(Duration::from_millis(1)).await {
                Ok(shortest) => ask(longest).await.map(|longest| (shortest, longest)),
                Err(error) => Err(error),
            };
            match asked {
                Ok((shortest, longest)) => {
                    let first_try = MIN_TIMEOUT.max(elapsed_since(asked_at));
                    return Ok((SessionLimits { shortest, longest }, first_try));
                }
                Err(error) => tries.add(number, &error),
            }
            limit = limit.saturating_mul(2);
            sleep_until(deadline_in(backoff.pause()).min(deadline)).await;
        }
        Err(tries.into_error())
    }

    /// Returns the unit of the ensemble's time, which is half the shortest timeout unless that is configured.
    pub(crate) fn tick(&self) -> Duration {
        self.shortest / 2
    }

    /// Returns the longest ttl of a lock, which can be proven for two ticks less than a session lives.
    pub(crate) fn longest_ttl(&self) -> Duration {
        (self.longest * 50 / 51)
            .saturating_sub(self.shortest)
            .max(self.longest / 4)
    }

    /// Returns the timeout of sessions for locks with that ttl: at most an eighth longer than needed, so that
    /// similar ttls share a session.
    pub(crate) fn timeout(&self, ttl: Duration) -> Duration {
        let proven = ttl + self.shortest;
        // Of what is proven, a lease leaves 1 % and 2 ms to differences of clocks.
        let needed = proven + proven / 50;
        let millis = u64::try_from(needed.as_millis()).unwrap_or(u64::MAX).max(1);
        let unit = 1 << millis.ilog2().saturating_sub(3);
        let timeout = Duration::from_millis(millis.div_ceil(unit).saturating_mul(unit));
        timeout.min(self.longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_lives_two_ticks_longer_than_its_locks() {
        let seconds = Duration::from_secs;
        let limits = SessionLimits {
            shortest: seconds(4),
            longest: seconds(40),
        };
        assert_eq!(limits.timeout(seconds(1)), Duration::from_millis(5120));
        for ttl in 1..36_000 {
            let ttl = Duration::from_millis(ttl);
            let timeout = limits.timeout(ttl);
            let proven = timeout - limits.tick() * 2 - timeout / 100;
            assert!(
                ttl > limits.longest_ttl() || proven >= ttl,
                "{timeout:?} for {ttl:?}"
            );
            assert!(timeout <= limits.longest && timeout < (ttl + seconds(4)) * 6 / 5);
        }
        assert!(limits.longest_ttl() > seconds(35));
    }
}
