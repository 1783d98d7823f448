//! Sending the requests of a session, and receiving replies and events, on one connection.

use crate::engine::event::EngineEvent;
use crate::engine::timeouts::NO_REPLY;
use crate::engine::zookeeper::net::failure::Failure;
use crate::engine::zookeeper::net::in_flight::{InFlight, Waiting};
use crate::engine::zookeeper::net::messages::{Hello, Incoming, Watch};
use crate::engine::zookeeper::net::request::Request;
use crate::engine::zookeeper::net::session::{Phase, Session, Surroundings};
use crate::engine::zookeeper::net::stream::Stream;
use crate::util::time::{now, sleep_until};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;
use tokio::task::yield_now;

/// The reason why a connection ends.
pub(super) enum End {
    Broken(Arc<str>),
    Expired,
    Closed,
}

impl Session {
    /// Sends requests and receives replies until the connection ends.
    pub(super) async fn exchange(&self, mut stream: Stream, hello: &mut Hello) -> End {
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
                .map(|oldest| oldest.max(last_heard) + timeouts.silence());
            if silent_at.is_some_and(|at| at <= now()) {
                return End::Broken(NO_REPLY.into());
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
                Ok(false) if in_flight.is_empty() => continue,
                // So that all tasks with work add their requests before they are written.
                Ok(false) => {
                    yield_now().await;
                    continue;
                }
                Err(_) if asked_to_end => return End::Closed,
                Err(error) => return End::Broken(error.to_string().into()),
            }
            loop {
                match stream.next_message() {
                    Ok(Some(message)) => match self.receive(message, in_flight, hello) {
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
        let xid = in_flight.number(&request);
        stream.send(&request.encode(xid, address.access()));
        in_flight.push(xid, request, waiting, at);
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
        let Some(answered) = in_flight.answer(message)? else {
            return Ok(());
        };
        if let Some(proof) = &mut state.proof {
            match answered.was_write {
                true => proof.write(answered.sent, self.surroundings.clock.now()),
                false => proof.contact(answered.sent),
            }
        }
        if let Some((watch, watcher)) = answered.watch {
            let watchers = state.watches.entry(watch).or_default();
            watchers.retain(|other| other.token != watcher.token);
            watchers.push(watcher);
        }
        Ok(())
    }

    /// Tells all that wait for one of these watches.
    fn fire(&self, watches: &[Watch], is_deletion: bool) {
        let mut state = self.state();
        let mut told = Vec::new();
        for watch in watches {
            let watchers = state.watches.remove(watch).unwrap_or_default();
            if is_deletion && matches!(watch, Watch::Node(_)) {
                let flags = watchers.iter().map(|watcher| &watcher.saw_end);
                flags.for_each(|flag| flag.store(true, Ordering::Release));
            }
            told.extend(watchers.into_iter().filter_map(|watcher| watcher.token));
        }
        drop(state);
        for token in told {
            (self.surroundings.handler)(EngineEvent::MayBeFree(token));
        }
    }
}
