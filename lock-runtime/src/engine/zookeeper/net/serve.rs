//! Serving a session over one connection after the other, until it ends.

use crate::engine::event::EngineEvent;
use crate::engine::timeouts::NO_REPLY;
use crate::engine::url::format_address;
use crate::engine::zookeeper::net::exchange::End;
use crate::engine::zookeeper::net::messages::{Hello, Welcome};
use crate::engine::zookeeper::net::proof::Proof;
use crate::engine::zookeeper::net::session::{Phase, Session, SessionContext};
use crate::trace;
use crate::util::backoff::Backoff;
use crate::util::clock::Timestamp;
use crate::util::time::{deadline_in, now, timeout_at};
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

impl Session {
    /// Serves the session until it ends.
    pub(crate) async fn run(self: Arc<Self>) {
        self.serve().await;
        self.end();
    }

    async fn serve(&self) {
        let SessionContext {
            address,
            timeouts,
            first_try,
            clock,
            ..
        } = &*self.context;
        let fresh = || Backoff::new(Duration::from_millis(5), Duration::from_millis(200));
        let (mut backoff, mut limit) = (fresh(), *first_try);
        let mut hello = Hello {
            session: 0,
            password: vec![0; 16],
            last_zxid: 0,
            timeout: self.timeout,
        };
        // So that sessions spread over the servers.
        let mut next = Uuid::new_v4().as_u128() as usize % address.hosts.len().max(1);
        let mut log = trace::Connection::default();
        loop {
            if self.is_idle(&hello) {
                return;
            }
            let host = &address.hosts[next % address.hosts.len()];
            let asked = clock.now();
            let connected = address.connect(host, &hello, limit.min(timeouts.connect));
            let error = match connected.await {
                Ok((stream, welcome)) => {
                    log.made(address, "requests");
                    if welcome.session == 0 && hello.session != 0 {
                        return;
                    }
                    self.welcome(&welcome, &mut hello, asked);
                    let connected_at = now();
                    match self.exchange(stream, &mut hello).await {
                        End::Broken(why) => {
                            if connected_at.elapsed() > timeouts.command {
                                (backoff, limit) = (fresh(), *first_try);
                            }
                            format!("`{}`: {why}", format_address(host))
                        }
                        End::Expired | End::Closed => return,
                    }
                }
                Err(error) => {
                    limit = (limit * 2).min(timeouts.connect);
                    if hello.session != 0 {
                        log.failed(address, "requests", &error);
                    }
                    error.to_string()
                }
            };
            self.disconnected(error.into());
            next += 1;
            let pause = deadline_in(backoff.pause());
            let _ = timeout_at(pause, std::future::pending::<()>()).await;
        }
    }

    /// Returns `true` if there is no session to end, and none is to be created.
    fn is_idle(&self, hello: &Hello) -> bool {
        let state = self.state();
        let closing = state.phase != Phase::Open;
        closing && (hello.session == 0 || state.unsent.is_empty())
    }

    fn welcome(&self, welcome: &Welcome, hello: &mut Hello, asked: Timestamp) {
        let mut state = self.state();
        match &mut state.proof {
            Some(proof) => proof.reconnected(asked, welcome.timeout),
            None => {
                let tick = self.context.tick;
                state.proof = Some(Proof::new(asked, welcome.timeout, tick));
            }
        }
        state.error = NO_REPLY.into();
        hello.session = welcome.session;
        hello.password.clone_from(&welcome.password);
    }

    /// The connection has ended, and the server has forgotten its watches.
    fn disconnected(&self, error: Arc<str>) {
        let mut state = self.state();
        state.error = error;
        let had_watches = !std::mem::take(&mut state.watches).is_empty();
        let now = now();
        state.unsent.retain(|unsent| unsent.deadline > now);
        drop(state);
        if had_watches {
            (self.context.handler)(EngineEvent::Resubscribed);
        }
    }

    fn end(&self) {
        let mut state = self.state();
        state.phase = Phase::Ended;
        let (unsent, watches) = (
            std::mem::take(&mut state.unsent),
            std::mem::take(&mut state.watches),
        );
        drop(state);
        drop(unsent);
        if !watches.is_empty() {
            (self.context.handler)(EngineEvent::Resubscribed);
        }
    }
}
