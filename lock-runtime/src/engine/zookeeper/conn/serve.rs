//! Serving a session over one connection after the other, until it ends.

use crate::engine::common::pace::Pace;
use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::event::EngineEvent;
use crate::engine::timeouts::NO_REPLY;
use crate::engine::url::format_address;
use crate::engine::zookeeper::conn::batch::exchange::End;
use crate::engine::zookeeper::conn::proof::Proof;
use crate::engine::zookeeper::conn::session::{Session, SessionContext, SessionPhase};
use crate::engine::zookeeper::wire::messages::{Hello, Welcome};
use crate::util::clock::Timestamp;
use crate::util::panics::caught;
use crate::util::time::now;
use std::io::Error;
use std::sync::Arc;
use uuid::Uuid;

impl Session {
    /// Serves the session until it ends.
    pub(crate) async fn run(self: Arc<Self>) {
        // After a panic, too: the ensemble ends a session that is not served.
        let _ = caught(self.serve()).await;
        self.end();
    }

    async fn serve(&self) {
        let SessionContext {
            io,
            address,
            timeouts,
            first_try,
            clock,
            handler,
            ..
        } = &*self.context;
        let of = (address as _, "requests");
        let mut pace = Pace::new(of, *first_try, timeouts, handler.clone());
        let mut hello = Hello {
            session: 0,
            password: vec![0; 16],
            last_zxid: 0,
            timeout: self.timeout,
        };
        // So that sessions spread over the servers.
        let mut next = Uuid::new_v4().as_u128() as usize % address.hosts.len().max(1);
        while !self.is_idle(&hello) {
            let host = &address.hosts[next % address.hosts.len()];
            next += 1;
            let connect = async {
                let login = address.credentials.get(*io, timeouts.credentials_by());
                let login = login.await.map_err(Error::other)?;
                let asked = clock.now();
                let connect = address.connect(host, (&hello, &login), pace.next_timeout());
                let (stream, welcome) = connect.await?;
                Ok::<_, Error>((stream, welcome, asked))
            };
            match connect.await {
                Ok((stream, welcome, asked)) => {
                    pace.made();
                    if welcome.session == 0 && hello.session != 0 {
                        return;
                    }
                    self.welcome(&welcome, &mut hello, asked);
                    let End::Broken(why) = self.exchange(stream, &mut hello).await else {
                        return;
                    };
                    let why = format!("`{}`: {why}", format_address(host));
                    self.disconnected(why.into());
                    pace.ended().await;
                }
                Err(error) => {
                    self.disconnected(error.to_string().into());
                    // Before there is a session, none is lost.
                    if hello.session != 0 {
                        pace.failed(EngineError::new(EngineErrorKind::NotConnected, error));
                    }
                    pace.pause().await;
                }
            }
        }
    }

    /// Returns `true` if there is no session to end, and none is to be created.
    fn is_idle(&self, hello: &Hello) -> bool {
        let state = self.state();
        let closing = state.phase != SessionPhase::Open;
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
        state.phase = SessionPhase::Ended;
        let (unsent, watches) = (
            std::mem::take(&mut state.unsent),
            std::mem::take(&mut state.watches),
        );
        drop(state);
        self.over.notify_waiters();
        drop(unsent);
        if !watches.is_empty() {
            (self.context.handler)(EngineEvent::Resubscribed);
        }
    }
}
