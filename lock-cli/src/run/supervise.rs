//! Stops the command before another holder can get the lock.

use super::command::Command;
use super::signals::Signals;
use crate::exit::{LOST, of_command};
use crate::output::say;
use lock_runtime::{LockError, LockGuard, LostCause};
use std::io;
use std::time::{Duration, Instant, SystemTime};
use tokio::time::sleep;

/// The longest sleep: timers stand still while the machine sleeps, and leases don't.
const LOOK: Duration = Duration::from_millis(250);

/// Waits until the command has ended, and passes signals on. Terminates it while `grace` is left of a lease
/// that isn't renewed, or when the lock is revoked, and kills it at the end of the lease. Returns the exit
/// code.
pub(crate) async fn supervise(
    command: &mut Command,
    guard: &LockGuard,
    grace: Duration,
    signals: &mut Signals,
) -> io::Result<u8> {
    let mut grace = Grace::new(grace);
    let (mut terminated, mut killed) = (false, false);
    let mut last_moment = None;
    loop {
        tokio::select! {
            biased;
            status = command.wait() => {
                let code = of_command(status?);
                return Ok(if terminated { LOST } else { code });
            }
            () = until(guard, |left| left), if !killed && last_moment.is_none() => {
                if is_revoked(guard) {
                    say("the command is terminated");
                    command.terminate();
                    last_moment = Some(Moment::after(grace.once_revoked()));
                } else {
                    say(&format!("lock `{}` was lost: the command is killed", guard.key()));
                    command.kill();
                    killed = true;
                }
                terminated = true;
            }
            () = passed(last_moment), if !killed && last_moment.is_some() => {
                say(&format!("lock `{}` was revoked: the command is killed", guard.key()));
                command.kill();
                killed = true;
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

fn is_revoked(guard: &LockGuard) -> bool {
    let valid = guard.ensure_valid_for(Duration::ZERO);
    matches!(
        valid,
        Err(LockError::Lost {
            cause: LostCause::Revoked,
            ..
        })
    )
}

/// A point in time, by the first of two clocks: one stands still while the machine sleeps, the other may be
/// set back.
#[derive(Clone, Copy)]
struct Moment(Instant, SystemTime);

impl Moment {
    fn after(time: Duration) -> Moment {
        Moment(Instant::now() + time, SystemTime::now() + time)
    }
}

/// Waits until that moment.
async fn passed(moment: Option<Moment>) {
    let Some(Moment(instant, time)) = moment else {
        return;
    };
    while Instant::now() < instant && SystemTime::now() < time {
        sleep((instant - Instant::now()).min(LOOK)).await;
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

/// The last part of a lease, at most half of it: the server grants a lock to a waiter for a shorter time than
/// its ttl, and the first renewal comes early.
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

    /// Returns for how long the command may go on once the lock is revoked: not beyond the lease that was
    /// seen last, a moment ago, since it may be lost meanwhile.
    fn once_revoked(&self) -> Duration {
        self.most.min(self.left.saturating_sub(2 * LOOK))
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
