//! One session: the requests within it, over one connection after the other, until it ends.
//!
//! Requests are carried out in the order in which they were submitted, across connections too: the ensemble refuses
//! what arrives late from an earlier connection of the session.

use crate::engine::event::{EngineEvent, EventHandler};
use crate::engine::lease::Lease;
use crate::engine::timeouts::Timeouts;
use crate::engine::token::Token;
use crate::engine::url::format_address;
use crate::engine::zookeeper::address::Address;
use crate::engine::zookeeper::net::connection::FIRST_TRY;
use crate::engine::zookeeper::net::messages::{
    Failure, Hello, Incoming, Reply, Request, Watch, Welcome,
};
use crate::engine::zookeeper::net::proof::Proof;
use crate::engine::zookeeper::net::requests::{Answer, InFlight, Unsent, Waiting};
use crate::engine::zookeeper::net::stream::Stream;
use crate::util::backoff::Backoff;
use crate::util::clock::{Clock, Timestamp};
use crate::util::io_thread::IoThread;
use crate::util::time::{deadline_in, now, sleep_until, timeout_at};
use std::collections::{HashMap, VecDeque};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;
use uuid::Uuid;

/// What all sessions of an engine share.
pub(crate) struct Surroundings {
    pub(crate) io: IoThread,
    pub(crate) address: Address,
    pub(crate) timeouts: Timeouts,
    pub(crate) clock: Clock,
    pub(crate) handler: EventHandler,
    /// Half the shortest session timeout of the ensemble.
    pub(crate) tick: Duration,
}

pub(crate) struct Session {
    /// Drawn by this process.
    pub(crate) identity: Uuid,
    surroundings: Arc<Surroundings>,
    timeout: Duration,
    state: Mutex<State>,
    work: Notify,
}

struct State {
    phase: Phase,
    last_id: u64,
    unsent: VecDeque<Unsent>,
    watches: HashMap<Watch, Vec<Token>>,
    /// `None` before the session exists.
    proof: Option<Proof>,
    /// Why there is no connection.
    error: Arc<str>,
}

#[derive(Clone, Copy, PartialEq)]
enum Phase {
    Open,
    /// The session is to be ended once all requests were sent.
    Closing,
    Ended,
}

/// A request that was submitted. Dropping it withdraws the request if it has not been sent.
pub(crate) struct Submitted<'a> {
    session: &'a Session,
    id: u64,
    reply: oneshot::Receiver<Answer>,
    deadline: Instant,
}

/// The reason why a connection ends.
enum End {
    Broken(Arc<str>),
    Expired,
    Closed,
}

impl Session {
    /// Creates a session that asks for that timeout. [`run`](Self::run) serves it.
    pub(crate) fn new(surroundings: Arc<Surroundings>, timeout: Duration) -> Session {
        Session {
            identity: Uuid::new_v4(),
            surroundings,
            timeout,
            state: Mutex::new(State {
                phase: Phase::Open,
                last_id: 0,
                unsent: VecDeque::new(),
                watches: HashMap::new(),
                proof: None,
                error: "it is being made".into(),
            }),
            work: Notify::new(),
        }
    }

    /// Submits a request. The token is told when the watch fires that the request leaves.
    pub(crate) fn submit(
        &self,
        request: Request,
        watcher: Option<Token>,
        deadline: Instant,
    ) -> Submitted<'_> {
        let (sender, reply) = oneshot::channel();
        let mut state = self.state();
        state.last_id += 1;
        let id = state.last_id;
        if state.phase == Phase::Ended {
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
    pub(crate) async fn request(&self, request: Request, deadline: Instant) -> Answer {
        self.submit(request, None, deadline).answer().await
    }

    /// Returns `true` once the session has ended, and with it all its nodes.
    pub(crate) fn is_ended(&self) -> bool {
        self.state().phase == Phase::Ended
    }

    /// Ends the session after the requests submitted so far.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        if state.phase == Phase::Open {
            state.phase = Phase::Closing;
        }
        self.work.notify_one();
    }

    /// Returns why a request of this session was not answered.
    pub(crate) fn unanswered(&self) -> Failure {
        Failure::Unanswered(self.state().error.clone())
    }

    /// Returns the lease that each lock of the session has at most; `None` if the session has ended.
    pub(crate) fn lease(&self) -> Option<Lease> {
        let state = self.state();
        let lives = state.phase != Phase::Ended;
        state.proof.as_ref().filter(|_| lives).map(Proof::lease)
    }

    /// Serves the session until it ends.
    pub(crate) async fn run(self: Arc<Self>) {
        self.serve().await;
        self.end();
    }

    async fn serve(&self) {
        let Surroundings {
            address,
            timeouts,
            clock,
            ..
        } = &*self.surroundings;
        let fresh = || Backoff::new(Duration::from_millis(5), Duration::from_millis(200));
        let (mut backoff, mut limit) = (fresh(), FIRST_TRY);
        let mut hello = Hello {
            session: 0,
            password: vec![0; 16],
            last_zxid: 0,
            timeout: self.timeout,
        };
        // So that sessions spread over the servers.
        let mut next = Uuid::new_v4().as_u128() as usize % address.hosts.len().max(1);
        loop {
            if self.is_idle(&hello) {
                return;
            }
            let host = &address.hosts[next % address.hosts.len()];
            let asked = clock.now();
            let connected = address.connect(host, &hello, limit.min(timeouts.connect));
            let error = match connected.await {
                Ok((stream, welcome)) => {
                    if welcome.session == 0 && hello.session != 0 {
                        return;
                    }
                    self.welcome(&welcome, &mut hello, asked);
                    let connected_at = now();
                    match self.exchange(stream, &mut hello).await {
                        End::Broken(why) => {
                            if connected_at.elapsed() > timeouts.command {
                                (backoff, limit) = (fresh(), FIRST_TRY);
                            }
                            format!("`{}`: {why}", format_address(host))
                        }
                        End::Expired | End::Closed => return,
                    }
                }
                Err(error) => {
                    limit = (limit * 2).min(timeouts.connect);
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
                let tick = self.surroundings.tick;
                state.proof = Some(Proof::new(asked, welcome.timeout, tick));
            }
        }
        state.error = "no reply in time".into();
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
            (self.surroundings.handler)(EngineEvent::Resubscribed);
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
            (self.surroundings.handler)(EngineEvent::Resubscribed);
        }
    }

    /// Sends requests and receives replies until the connection ends.
    async fn exchange(&self, mut stream: Stream, hello: &mut Hello) -> End {
        let mut in_flight = InFlight::default();
        let end = self.exchange_with(&mut stream, &mut in_flight, hello).await;
        let why: Arc<str> = match &end {
            End::Broken(why) => why.clone(),
            End::Expired => "the session has expired".into(),
            End::Closed => "the session was ended".into(),
        };
        in_flight.fail(&why);
        end
    }

    async fn exchange_with(
        &self,
        stream: &mut Stream,
        in_flight: &mut InFlight,
        hello: &mut Hello,
    ) -> End {
        let Surroundings { timeouts, tick, .. } = &*self.surroundings;
        let ping = (*tick / 2)
            .min(self.timeout / 4)
            .max(Duration::from_millis(5));
        let (mut last_heard, mut last_sent) = (now(), now());
        let mut asked_to_end = false;
        loop {
            if self.send_requests(stream, in_flight) {
                last_sent = now();
            }
            if self.state().phase == Phase::Closing && in_flight.is_empty() {
                if asked_to_end {
                    return End::Closed;
                }
                asked_to_end = true;
                self.send(stream, in_flight, Request::CloseSession, None);
            }
            if in_flight.is_empty() && now() >= last_sent + ping {
                self.send(stream, in_flight, Request::Ping, None);
                last_sent = now();
            }
            let silent_at = in_flight
                .oldest()
                .map(|oldest| oldest.max(last_heard) + timeouts.command);
            if silent_at.is_some_and(|at| at <= now()) {
                let words = format!("no reply within {:?}", timeouts.command);
                return End::Broken(words.into());
            }
            let due = silent_at.unwrap_or(last_sent + ping);
            let mut tick = pin!(sleep_until(due));
            let mut work = pin!(self.work.notified());
            let received = poll_fn(|context| {
                if let Poll::Ready(received) = stream.poll(context) {
                    return Poll::Ready(received.map(|()| true));
                }
                let works = work.as_mut().poll(context).is_ready();
                match works || tick.as_mut().poll(context).is_ready() {
                    true => Poll::Ready(Ok(false)),
                    false => Poll::Pending,
                }
            });
            match received.await {
                Ok(true) => last_heard = now(),
                Ok(false) => continue,
                Err(_) if asked_to_end => return End::Closed,
                Err(error) => return End::Broken(error.to_string().into()),
            }
            loop {
                match stream.next_message() {
                    Ok(Some(message)) => match self.receive(&message, in_flight, hello) {
                        Ok(()) => {}
                        Err(Failure::SessionExpired) => return End::Expired,
                        Err(failure) => return End::Broken(failure.to_string().into()),
                    },
                    Ok(None) => break,
                    Err(error) => return End::Broken(error.to_string().into()),
                }
            }
        }
    }

    /// Sends all requests whose callers still wait. Returns `true` if it has sent any.
    fn send_requests(&self, stream: &mut Stream, in_flight: &mut InFlight) -> bool {
        let unsent = std::mem::take(&mut self.state().unsent);
        let now = now();
        let mut any = false;
        for unsent in unsent.into_iter().filter(|unsent| unsent.deadline > now) {
            self.send(stream, in_flight, unsent.request, Some(unsent.waiting));
            any = true;
        }
        any
    }

    fn send(
        &self,
        stream: &mut Stream,
        in_flight: &mut InFlight,
        request: Request,
        waiting: Option<Waiting>,
    ) {
        let Surroundings { clock, address, .. } = &*self.surroundings;
        let at = (clock.now(), now());
        let xid = in_flight.push(request.clone(), waiting, at);
        stream.send(request.encode(xid, address.access()));
    }

    fn receive(
        &self,
        message: &[u8],
        in_flight: &mut InFlight,
        hello: &mut Hello,
    ) -> Result<(), Failure> {
        let message = Incoming::parse(message).ok_or(Failure::Malformed)?;
        match &message {
            Incoming::Event(watches) => self.fire(watches),
            Incoming::Refused => return Err(Failure::NoPermission),
            Incoming::Reply { zxid, .. } => hello.last_zxid = hello.last_zxid.max(*zxid),
            Incoming::Other => {}
        }
        let mut state = self.state();
        // Under the mutex: whoever gets the reply finds what it proves.
        let Some(answered) = in_flight.answer(message)? else {
            return Ok(());
        };
        if let Some(proof) = &mut state.proof {
            match answered.was_write {
                true => proof.write(answered.sent, self.surroundings.clock.now()),
                false => proof.contact(answered.sent),
            }
        }
        if let Some((watch, token)) = answered.watch {
            let watchers = state.watches.entry(watch).or_default();
            if !watchers.contains(&token) {
                watchers.push(token);
            }
        }
        Ok(())
    }

    /// Tells all that wait for one of these watches.
    fn fire(&self, watches: &[Watch]) {
        let mut state = self.state();
        let fired = watches
            .iter()
            .filter_map(|watch| state.watches.remove(watch));
        let fired: Vec<Token> = fired.flatten().collect();
        drop(state);
        for token in fired {
            (self.surroundings.handler)(EngineEvent::MayBeFree(token));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Submitted<'_> {
    /// Waits for the reply, at most until the deadline.
    pub(crate) async fn answer(mut self) -> Answer {
        let io = self.session.surroundings.io;
        if let Ok(answer) = io.timeout_at(self.deadline, &mut self.reply).await {
            return answer.unwrap_or_else(|_| Err(self.dropped()));
        }
        let withdrawn = self.withdraw();
        let error = self.session.state().error.clone();
        Err(match withdrawn {
            true => Failure::NotSent(error),
            false => Failure::Unanswered(error),
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
            Phase::Ended => Failure::SessionExpired,
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

/// Waits for the reply of a request that returns nothing.
pub(crate) fn done(answer: Answer) -> Result<bool, Failure> {
    match answer {
        Ok(Reply::Done) => Ok(true),
        Ok(_) => Err(Failure::Malformed),
        Err(Failure::NoNode) => Ok(false),
        Err(failure) => Err(failure),
    }
}
