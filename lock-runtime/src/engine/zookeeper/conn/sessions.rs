//! The sessions of a process: one for each length of time in use.

use crate::engine::zookeeper::conn::session::{Session, SessionContext};
use crate::engine::zookeeper::conn::session_limits::SessionLimits;
use crate::util::sync::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

pub(crate) struct Sessions {
    pub(crate) context: Arc<SessionContext>,
    limits: SessionLimits,
    open: Mutex<HashMap<Duration, Arc<Session>>>,
}

impl Sessions {
    pub(crate) fn new(context: SessionContext, limits: SessionLimits) -> Sessions {
        Sessions {
            context: Arc::new(context),
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
        self.context.io.spawn_detached(session.clone().run());
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
