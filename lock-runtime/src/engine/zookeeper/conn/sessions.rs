//! The sessions of a process: one for each length of time in use.

use crate::engine::zookeeper::conn::session::{Session, SessionContext};
use crate::util::io_thread::IoThread;
use crate::util::sync::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

pub(crate) struct Sessions {
    pub(crate) context: Arc<SessionContext>,
    io: IoThread,
    limits: SessionLimits,
    open: Mutex<HashMap<Duration, Arc<Session>>>,
}

/// The shortest and the longest session timeout that an ensemble gives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionLimits {
    pub(crate) shortest: Duration,
    pub(crate) longest: Duration,
}

impl SessionLimits {
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

    /// Returns the timeout of sessions for locks with that ttl: at most an eighth longer than needed, so that similar
    /// ttls share a session.
    fn timeout(&self, ttl: Duration) -> Duration {
        let proven = ttl + self.shortest;
        // Of what is proven, a lease leaves 1 % and 2 ms to differences of clocks.
        let needed = proven + proven / 50;
        let millis = u64::try_from(needed.as_millis()).unwrap_or(u64::MAX).max(1);
        let unit = 1 << millis.ilog2().saturating_sub(3);
        let timeout = Duration::from_millis(millis.div_ceil(unit).saturating_mul(unit));
        timeout.min(self.longest)
    }
}

impl Sessions {
    pub(crate) fn new(context: SessionContext, io: IoThread, limits: SessionLimits) -> Sessions {
        Sessions {
            context: Arc::new(context),
            io,
            limits,
            open: Mutex::default(),
        }
    }

    pub(crate) fn limits(&self) -> SessionLimits {
        self.limits
    }

    /// Returns the session for locks with that ttl, and begins one if there is none.
    pub(crate) fn of(&self, ttl: Duration) -> Arc<Session> {
        let timeout = self.limits.timeout(ttl);
        let mut open = self.open();
        if let Some(session) = open.get(&timeout).filter(|session| !session.is_ended()) {
            return session.clone();
        }
        let session = Arc::new(Session::new(self.context.clone(), timeout));
        open.insert(timeout, session.clone());
        self.io.spawn_detached(session.clone().run());
        session
    }

    /// Ends the sessions that nothing depends on, and returns them. Later locks get others.
    pub(crate) fn close_if(&self, is_unused: impl Fn(&Arc<Session>) -> bool) -> Vec<Arc<Session>> {
        let mut open = self.open();
        let unused = open.extract_if(|_, session| is_unused(session));
        let unused: Vec<_> = unused.map(|(_, session)| session).collect();
        unused.iter().for_each(|session| session.close());
        unused
    }

    fn open(&self) -> MutexGuard<'_, HashMap<Duration, Arc<Session>>> {
        self.open.lock()
    }
}

impl Drop for Sessions {
    fn drop(&mut self) {
        self.close_if(|_| true);
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
