//! Stops the command before another holder can get the lock.

use super::command::Command;
use super::signals::Signals;
use crate::exit::{LOST, of_command};
use crate::output::say;
use lock_runtime::LockGuard;
use std::io;
use std::time::Duration;
use tokio::time::sleep;

/// The longest sleep: timers stand still while the machine sleeps, and leases don't.
const LOOK: Duration = Duration::from_millis(250);

/// Waits until the command has ended, and passes signals on. Terminates it while `grace` is left of a lease that isn't
/// renewed, and kills it at the end of the lease. Returns the exit code.
pub(crate) async fn supervise(
    command: &mut Command,
    guard: &LockGuard,
    grace: Duration,
    signals: &mut Signals,
) -> io::Result<u8> {
    let mut grace = Grace::new(grace);
    let (mut terminated, mut killed) = (false, false);
    loop {
        tokio::select! {
            biased;
            status = command.wait() => {
                let code = of_command(status?);
                return Ok(if terminated { LOST } else { code });
            }
            () = until(guard, |left| left), if !killed => {
                say(&format!("lock `{}` was lost: the command is killed", guard.key()));
                command.kill();
                (terminated, killed) = (true, true);
            }
            () = until(guard, |left| grace.after(left)), if !terminated => {
                say(&format!("lock `{}` can't be renewed: the command is terminated", guard.key()));
                command.terminate();
                terminated = true;
            }
            signal = signals.next() => command.forward(signal),
        }
    }
}

/// Waits until `pause` of what is left of the lease is zero.
async fn until(guard: &LockGuard, mut pause: impl FnMut(Duration) -> Duration) {
    loop {
        let pause = pause(guard.remaining());
        if pause.is_zero() {
            return;
        }
        tokio::select! {
            _ = guard.lost() => return,
            () = sleep(pause.min(LOOK)) => {}
        }
    }
}

/// The last part of a lease, at most half of it: the server grants a lock to a waiter for a shorter time than its ttl, and
/// the first renewal comes early.
struct Grace {
    most: Duration,
    current: Duration,
    left: Duration,
}

impl Grace {
    fn new(most: Duration) -> Grace {
        Grace {
            most,
            current: Duration::ZERO,
            left: Duration::ZERO,
        }
    }

    /// Returns the time until the grace begins.
    fn after(&mut self, left: Duration) -> Duration {
        let is_renewed = left > self.left;
        self.left = left;
        if is_renewed {
            self.current = self.most.min(left / 2);
        }
        left.saturating_sub(self.current)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grace_is_at_most_half_of_the_lease() {
        let seconds = Duration::from_secs;
        let mut grace = Grace::new(seconds(5));
        // Granted to a waiter, renewed, and then not any more.
        for (left, expected) in [(2, 1), (1, 0), (30, 25), (6, 1), (5, 0), (0, 0)] {
            assert_eq!(grace.after(seconds(left)), seconds(expected), "{left} s");
        }
    }
}
