//! Sending the requests of a session, and receiving replies and events, on one connection.

use crate::engine::event::EngineEvent;
use crate::engine::timeouts::NO_REPLY;
use crate::engine::zookeeper::conn::batch::in_flight::{InFlight, Waiting};
use crate::engine::zookeeper::conn::session::{Session, SessionContext, SessionPhase};
use crate::engine::zookeeper::conn::stream::Stream;
use crate::engine::zookeeper::wire::error::Failure;
use crate::engine::zookeeper::wire::messages::{Hello, Incoming, Watch};
use crate::engine::zookeeper::wire::request::Request;
use crate::util::time::{now, sleep_until};
use std::fmt::Display;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;
use tokio::task::yield_now;
use tokio::time::Instant;

/// The reason why a connection ends.
pub(crate) enum End {
    Broken(Arc<str>),
    Expired,
    Closed,
}

/// A connection of a session, while requests and replies pass.
struct Exchange<'a> {
    session: &'a Session,
    stream: Stream,
    in_flight: InFlight,
    hello: &'a mut Hello,
    /// How long the client sends nothing at most.
    ping: Duration,
    last_heard: Instant,
    last_sent: Instant,
    asked_to_end: bool,
}

impl Exchange<'_> {
    async fn run(&mut self) -> End {
        loop {
            if let Err(end) = self.turn().await {
                return end;
            }
        }
    }

    async fn turn(&mut self) -> Result<(), End> {
        self.send_all()?;
        let due = self.next_due()?;
        if self.wait_until(due).await? {
            self.last_heard = now();
            return self.receive_all();
        }
        if !self.in_flight.is_empty() {
            // So that all tasks with work add their requests before they are written.
            yield_now().await;
        }
        Ok(())
    }

    /// Sends what callers have submitted, and what the session needs itself.
    fn send_all(&mut self) -> Result<(), End> {
        if self.send_submitted() {
            self.last_sent = now();
        }
        let is_closing = self.session.state().phase == SessionPhase::Closing;
        if is_closing && self.in_flight.is_empty() {
            if self.asked_to_end {
                return Err(End::Closed);
            }
            self.asked_to_end = true;
            self.send(Request::CloseSession, None);
        }
        if self.in_flight.is_empty() && now() >= self.last_sent + self.ping {
            self.send(Request::Ping, None);
            self.last_sent = now();
        }
        Ok(())
    }

    /// Sends all requests whose callers still wait. Returns `true` if it has sent any.
    fn send_submitted(&mut self) -> bool {
        let unsent = std::mem::take(&mut self.session.state().unsent);
        let now = now();
        let mut any = false;
        for unsent in unsent.into_iter().filter(|unsent| unsent.deadline > now) {
            self.send(unsent.request, Some(unsent.waiting));
            any = true;
        }
        any
    }

    fn send(&mut self, request: Request, waiting: Option<Waiting>) {
        let SessionContext { clock, address, .. } = &*self.session.context;
        let at = (clock.now(), now());
        let xid = self.in_flight.number(&request);
        self.stream.send(&request.encode(xid, address.access()));
        self.in_flight.push(xid, request, waiting, at);
    }

    /// Returns when the next ping or the next reply is due. Fails if the server has been silent for too long.
    fn next_due(&self) -> Result<Instant, End> {
        let Some(oldest) = self.in_flight.oldest() else {
            return Ok(self.last_sent + self.ping);
        };
        let silence = self.session.context.timeouts.silence();
        let due = oldest.max(self.last_heard) + silence;
        match due <= now() {
            true => Err(End::Broken(NO_REPLY.into())),
            false => Ok(due),
        }
    }

    /// Returns `true` when bytes have come, or `false` when there is work or it is time.
    async fn wait_until(&mut self, due: Instant) -> Result<bool, End> {
        let mut due = pin!(sleep_until(due));
        let mut work = pin!(self.session.work.notified());
        let stream = &mut self.stream;
        let received = poll_fn(|context| {
            if let Poll::Ready(received) = stream.poll(context) {
                return Poll::Ready(received.map(|()| true));
            }
            let works = work.as_mut().poll(context).is_ready();
            match works || due.as_mut().poll(context).is_ready() {
                true => Poll::Ready(Ok(false)),
                false => Poll::Pending,
            }
        });
        received.await.map_err(|error| match self.asked_to_end {
            true => End::Closed,
            false => End::Broken(error.to_string().into()),
        })
    }

    fn receive_all(&mut self) -> Result<(), End> {
        let broken = |why: &dyn Display| End::Broken(why.to_string().into());
        while let Some(message) = self.stream.next_message().map_err(|error| broken(&error))? {
            let (in_flight, hello) = (&mut self.in_flight, &mut *self.hello);
            let received = self.session.receive(message, in_flight, hello);
            received.map_err(|failure| match failure {
                Failure::SessionExpired => End::Expired,
                failure => broken(&failure),
            })?;
        }
        Ok(())
    }
}

impl Session {
    /// Sends requests and receives replies until the connection ends.
    pub(crate) async fn exchange(&self, stream: Stream, hello: &mut Hello) -> End {
        let ping = (self.context.tick / 2).min(self.timeout / 4);
        let mut exchange = Exchange {
            session: self,
            stream,
            in_flight: InFlight::default(),
            hello,
            ping: ping.max(Duration::from_millis(5)),
            last_heard: now(),
            last_sent: now(),
            asked_to_end: false,
        };
        let end = exchange.run().await;
        let why: Arc<str> = match &end {
            End::Broken(why) => why.clone(),
            End::Expired => "the session has expired".into(),
            End::Closed => "the session was ended".into(),
        };
        exchange.in_flight.fail(&why);
        end
    }

    fn receive(
        &self,
        message: &[u8],
        in_flight: &mut InFlight,
        hello: &mut Hello,
    ) -> Result<(), Failure> {
        let message = Incoming::parse(message).ok_or(Failure::Malformed)?;
        match &message {
            Incoming::Event {
                watches,
                is_deletion,
            } => self.fire(watches, *is_deletion),
            Incoming::Refused => return Err(Failure::LoginRefused),
            Incoming::Reply { zxid, .. } => hello.last_zxid = hello.last_zxid.max(*zxid),
            Incoming::Other => {}
        }
        let mut state = self.state();
        // Under the mutex: whoever gets the reply finds what it proves.
        let Some(delivered) = in_flight.deliver(message)? else {
            return Ok(());
        };
        if let Some(proof) = &mut state.proof {
            match delivered.was_write {
                true => proof.write(delivered.sent, self.context.clock.now()),
                false => proof.contact(delivered.sent),
            }
        }
        if let Some((watch, watcher)) = delivered.watch {
            let watchers = state.watches.entry(watch).or_default();
            watchers.retain(|other| !other.is_replaced_by(&watcher));
            watchers.push(watcher);
        }
        Ok(())
    }

    /// Notifies all that wait for one of these watches.
    fn fire(&self, watches: &[Watch], is_deletion: bool) {
        let mut state = self.state();
        let mut notified = Vec::new();
        for watch in watches {
            let watchers = state.watches.remove(watch).unwrap_or_default();
            if is_deletion && matches!(watch, Watch::Node(_)) {
                let flags = watchers.iter().map(|watcher| &watcher.saw_end);
                flags.for_each(|flag| flag.store(true, Ordering::Release));
            }
            notified.extend(watchers.into_iter().filter_map(|watcher| watcher.token));
        }
        drop(state);
        for token in notified {
            (self.context.handler)(EngineEvent::MayBeFree(token));
        }
    }
}
