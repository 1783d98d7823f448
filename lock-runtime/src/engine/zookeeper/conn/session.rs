//! One session, as its users see it: requests, and how long it is proven to live.
//!
//! Requests are carried out in the order in which they were submitted, across connections too: the ensemble
//! refuses what arrives late from an earlier connection of the session.

use crate::engine::event::EventHandler;
use crate::engine::lease::Lease;
use crate::engine::timeouts::Timeouts;
use crate::engine::zookeeper::address::Address;
use crate::engine::zookeeper::conn::batch::in_flight::{Unsent, Waiting, Watcher};
use crate::engine::zookeeper::conn::proof::Proof;
use crate::engine::zookeeper::wire::error::Failure;
use crate::engine::zookeeper::wire::messages::Watch;
use crate::engine::zookeeper::wire::reply::Reply;
use crate::engine::zookeeper::wire::request::Request;
use crate::util::clock::Clock;
use crate::util::io_thread::IoThread;
use crate::util::sync::{Mutex, MutexGuard};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;
use uuid::Uuid;

/// What all sessions of an engine share.
pub(crate) struct SessionContext {
    pub(crate) io: IoThread,
    pub(crate) address: Address,
    pub(crate) timeouts: Timeouts,
    /// The time that a server gets at first to accept a connection.
    pub(crate) first_try: Duration,
    pub(crate) clock: Clock,
    pub(crate) handler: EventHandler,
    /// Half the shortest session timeout of the ensemble.
    pub(crate) tick: Duration,
}

pub(crate) struct Session {
    /// Drawn by this process.
    pub(crate) identity: Uuid,
    pub(crate) context: Arc<SessionContext>,
    pub(crate) timeout: Duration,
    pub(crate) state: Mutex<SessionState>,
    pub(crate) work: Notify,
    pub(crate) over: Notify,
}

pub(crate) struct SessionState {
    pub(crate) phase: SessionPhase,
    last_id: u64,
    pub(crate) unsent: VecDeque<Unsent>,
    pub(crate) watches: HashMap<Watch, Vec<Watcher>>,
    /// `None` before the session exists.
    pub(crate) proof: Option<Proof>,
    /// Why there is no connection.
    pub(crate) error: Arc<str>,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum SessionPhase {
    Open,
    /// The session is to be ended once all requests were sent.
    Closing,
    Ended,
}

/// A request that was submitted. Dropping it withdraws the request if it has not been sent.
pub(crate) struct Submitted<'a> {
    session: &'a Session,
    id: u64,
    reply: oneshot::Receiver<Result<Reply, Failure>>,
    deadline: Instant,
}

impl Session {
    /// Creates a session that asks for that timeout. `run` serves it.
    pub(crate) fn new(context: Arc<SessionContext>, timeout: Duration) -> Session {
        Session {
            identity: Uuid::new_v4(),
            context,
            timeout,
            state: Mutex::new(SessionState {
                phase: SessionPhase::Open,
                last_id: 0,
                unsent: VecDeque::new(),
                watches: HashMap::new(),
                proof: None,
                error: "it is being made".into(),
            }),
            work: Notify::new(),
            over: Notify::new(),
        }
    }

    /// Submits a request. The watcher is notified when the watch fires that the request leaves.
    pub(crate) fn submit(
        &self,
        request: Request,
        watcher: Option<Watcher>,
        deadline: Instant,
    ) -> Submitted<'_> {
        let (sender, reply) = oneshot::channel();
        let mut state = self.state();
        state.last_id += 1;
        let id = state.last_id;
        if state.phase == SessionPhase::Ended {
            drop(sender);
        } else {
            state.unsent.push_back(Unsent {
                id,
                request,
                waiting: Waiting {
                    reply: sender,
                    watcher,
                },
                deadline,
            });
            self.work.notify_one();
        }
        Submitted {
            session: self,
            id,
            reply,
            deadline,
        }
    }

    /// Submits a request, and returns its reply.
    pub(crate) async fn request(
        &self,
        request: Request,
        deadline: Instant,
    ) -> Result<Reply, Failure> {
        self.submit(request, None, deadline).reply().await
    }

    /// Returns `true` if the server has a watch at the node, which has not fired: the node exists, after all
    /// events that have been received.
    pub(crate) fn is_watched(&self, node: &str) -> bool {
        let watch = Watch::Node(node.to_owned());
        self.state().watches.contains_key(&watch)
    }

    /// Returns `true` once the session has ended, and with it all its nodes.
    pub(crate) fn is_ended(&self) -> bool {
        self.state().phase == SessionPhase::Ended
    }

    /// Waits until the session has ended.
    pub(crate) async fn ended(&self) {
        // Before it looks, so that it does not miss the end.
        let over = self.over.notified();
        if !self.is_ended() {
            over.await;
        }
    }

    /// Ends the session after the requests submitted so far.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        if state.phase == SessionPhase::Open {
            state.phase = SessionPhase::Closing;
        }
        self.work.notify_one();
    }

    /// Returns why a request of this session got no reply.
    pub(crate) fn no_reply(&self) -> Failure {
        Failure::NoReply(self.state().error.clone())
    }

    /// Returns the lease that each lock of the session has at most; `None` if the session has ended.
    pub(crate) fn lease(&self) -> Option<Lease> {
        let state = self.state();
        let lives = state.phase != SessionPhase::Ended;
        state.proof.as_ref().filter(|_| lives).map(Proof::lease)
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, SessionState> {
        self.state.lock()
    }
}

impl Submitted<'_> {
    /// Waits for the reply, at most until the deadline.
    pub(crate) async fn reply(mut self) -> Result<Reply, Failure> {
        let io = self.session.context.io;
        if let Ok(reply) = io.timeout_at(self.deadline, &mut self.reply).await {
            return reply.unwrap_or_else(|_| Err(self.dropped()));
        }
        let withdrawn = self.withdraw();
        let error = self.session.state().error.clone();
        Err(match withdrawn {
            true => Failure::NotSent(error),
            false => Failure::NoReply(error),
        })
    }

    /// Returns `true` if the request was not sent, and will not be.
    fn withdraw(&self) -> bool {
        let mut state = self.session.state();
        let at = state
            .unsent
            .binary_search_by_key(&self.id, |unsent| unsent.id);
        at.is_ok_and(|at| state.unsent.remove(at).is_some())
    }

    /// Returns the reason why the request was dropped unsent.
    fn dropped(&self) -> Failure {
        let state = self.session.state();
        match state.phase {
            SessionPhase::Ended => Failure::SessionExpired,
            _ => Failure::NotSent(state.error.clone()),
        }
    }
}

impl Drop for Submitted<'_> {
    fn drop(&mut self) {
        if !self.reply.is_terminated() {
            self.withdraw();
        }
    }
}

/// Returns whether a request was carried out whose reply says no more; `false` if there is no such node.
pub(crate) fn done(reply: Result<Reply, Failure>) -> Result<bool, Failure> {
    match reply {
        Ok(Reply::Done) => Ok(true),
        Ok(_) => Err(Failure::Malformed),
        Err(Failure::NoNode) => Ok(false),
        Err(failure) => Err(failure),
    }
}
