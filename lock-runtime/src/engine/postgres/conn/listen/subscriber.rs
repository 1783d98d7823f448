//! The connections that listen: one that works, one that is to replace it, and the one before.
//!
//! The one before is kept until no claim in a queue names its channel any more.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::event::{EngineEvent, EventHandler};
use crate::engine::postgres::address::Target;
use crate::engine::postgres::conn::batch::queue::Queue;
use crate::engine::postgres::conn::batch::request::Request;
use crate::engine::postgres::conn::listen::subscription::{Event, Subscription, subscribe};
use crate::engine::postgres::wire::messages::parse;
use crate::engine::timeouts::{GRANT_TTL, Timeouts, WAITER_TTL};
use crate::trace;
use crate::util::backoff::Backoff;
use crate::util::io_thread::{AbortOnDrop, IoThread};
use crate::util::sync::Mutex;
use crate::util::time::{deadline_in, elapsed_since, now, timeout_at};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

/// How long the connection is kept while nobody waits.
const IDLE: Duration = Duration::from_secs(60);
/// How long a message to itself may take.
const ECHO: Duration = Duration::from_secs(1);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Idle,
    Starting,
    /// Messages arrive on that channel.
    Listening(Arc<str>),
    /// The last attempt failed; more follow.
    Down,
}

/// An attempt to make a connection.
enum Attempt {
    /// No other connection is needed.
    None,
    /// The last one failed.
    At(Instant),
    UnderWay {
        number: u64,
        until: Instant,
        /// Connected; its own message has not arrived.
        subscription: Option<Box<Subscription>>,
        _task: AbortOnDrop,
    },
}

pub(crate) struct Subscriber {
    io: IoThread,
    target: Arc<Target>,
    timeouts: Timeouts,
    queue: Arc<Queue>,
    handler: EventHandler,
    status: Arc<watch::Sender<Status>>,
    used: Arc<Mutex<Instant>>,
    sender: mpsc::UnboundedSender<Event>,
    events: mpsc::UnboundedReceiver<Event>,
    /// The number of attempts so far.
    attempts: u64,
    attempt: Attempt,
    backoff: Backoff,
    present: Option<Box<Subscription>>,
    /// The one before, and until when it is kept.
    before: Option<(Box<Subscription>, Instant)>,
    /// `None` until messages have arrived once: behind a pooler they never do.
    log: Option<trace::Connection>,
}

impl Subscriber {
    pub(crate) fn new(
        io: IoThread,
        target: Arc<Target>,
        timeouts: Timeouts,
        queue: Arc<Queue>,
        handler: EventHandler,
        status: Arc<watch::Sender<Status>>,
        used: Arc<Mutex<Instant>>,
    ) -> Subscriber {
        let (sender, events) = mpsc::unbounded_channel();
        Subscriber {
            io,
            target,
            timeouts,
            queue,
            handler,
            status,
            used,
            sender,
            events,
            attempts: 0,
            attempt: Attempt::None,
            backoff: pauses(),
            present: None,
            before: None,
            log: None,
        }
    }

    /// Returns where to send events.
    pub(crate) fn sender(&self) -> mpsc::UnboundedSender<Event> {
        self.sender.clone()
    }

    /// Runs until the listener is dropped.
    pub(crate) async fn run(&mut self) {
        loop {
            let event = match self.next_time() {
                Some(time) => timeout_at(time, self.events.recv()).await,
                None => Ok(self.events.recv().await),
            };
            match event {
                Ok(Some(Event::Closed) | None) => return,
                Ok(Some(event)) => self.on_event(event),
                Err(_) => self.on_time(),
            }
        }
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Wanted if *self.status.borrow() == Status::Idle => {
                self.status.send_replace(Status::Starting);
                self.connect();
            }
            Event::Replace if self.may_be_replaced() => self.connect(),
            Event::Opened(of, opened) => self.on_opened(of, opened),
            Event::Message(of, message) if message == "echo" => self.on_echo(of),
            Event::Message(_, message) => {
                if let Some(event) = parse(&message) {
                    (self.handler)(event);
                }
            }
            Event::Ended(of) => self.on_end(of),
            Event::Wanted | Event::Replace | Event::Closed => {}
        }
    }

    /// Returns `false` if the message may have been sent to the connection before: a grant that lasts is no news.
    fn may_be_replaced(&self) -> bool {
        let lasts = |present: &Subscription| elapsed_since(present.since) > GRANT_TTL;
        matches!(self.attempt, Attempt::None) && self.present.as_deref().is_some_and(lasts)
    }

    fn connect(&mut self) {
        self.attempts += 1;
        let number = self.attempts;
        let (io, target) = (self.io, self.target.clone());
        let (timeout, sender) = (self.timeouts.connect, self.sender.clone());
        let task = self.io.spawn(async move {
            let subscription = subscribe(io, &target, timeout, number, &sender).await;
            let _ = sender.send(Event::Opened(number, subscription.map(Box::new)));
        });
        self.attempt = Attempt::UnderWay {
            number,
            // Later than the task ends, which answers unless it panics.
            until: deadline_in(timeout * 2 + ECHO),
            subscription: None,
            _task: AbortOnDrop(task.abort_handle()),
        };
    }

    fn on_opened(&mut self, of: u64, opened: Result<Box<Subscription>, EngineError>) {
        let Attempt::UnderWay {
            number,
            until,
            subscription,
            ..
        } = &mut self.attempt
        else {
            return;
        };
        match opened {
            _ if *number != of => {}
            Ok(opened) => {
                let echo = format!("{} echo", opened.channel);
                *until = deadline_in(ECHO);
                *subscription = Some(opened);
                self.queue.push(Request::Tell(vec![echo]));
            }
            Err(error) => self.on_failure(&error),
        }
    }

    fn on_echo(&mut self, of: u64) {
        if let Attempt::UnderWay {
            number,
            subscription,
            ..
        } = &mut self.attempt
            && *number == of
            && let Some(heard) = subscription.take()
        {
            self.status
                .send_replace(Status::Listening(heard.channel.clone()));
            self.attempt = Attempt::None;
            let log = self.log.get_or_insert_default();
            log.made(&self.target.listen, "messages");
            self.backoff = pauses();
            self.keep_as_before();
            self.present = Some(heard);
            // All claims ask again, and name the new channel.
            (self.handler)(EngineEvent::Resubscribed);
        }
    }

    fn on_end(&mut self, of: u64) {
        let is_it = |it: &Subscription| it.number == of;
        if self.before.as_ref().is_some_and(|(it, _)| is_it(it)) {
            self.before = None;
        }
        if self.present.as_deref().is_some_and(is_it) {
            self.present = None;
            if matches!(self.attempt, Attempt::None) {
                self.attempt = Attempt::At(deadline_in(self.backoff.pause()));
            }
            self.tell_that_it_is_down();
        }
        if matches!(&self.attempt, Attempt::UnderWay { number, .. } if *number == of) {
            self.on_failure(&failed("the connection has ended"));
        }
    }

    fn on_failure(&mut self, error: &EngineError) {
        if let Some(log) = &mut self.log {
            log.failed(&self.target.listen, "messages", error);
        }
        self.attempt = Attempt::At(deadline_in(self.backoff.pause()));
        // It was to be replaced.
        self.keep_as_before();
        self.tell_that_it_is_down();
    }

    fn keep_as_before(&mut self) {
        if let Some(present) = self.present.take() {
            // A claim that has not asked again for this long has left its queue.
            self.before = Some((present, deadline_in(WAITER_TTL)));
        }
    }

    /// Lets all claims ask again, without a channel: whoever names one that no process listens to counts as dead.
    fn tell_that_it_is_down(&self) {
        let before = self.status.send_replace(Status::Down);
        if matches!(before, Status::Listening(_)) {
            (self.handler)(EngineEvent::Resubscribed);
        }
    }

    fn is_unused(&self) -> bool {
        elapsed_since(self.used()) > IDLE
    }

    fn used(&self) -> Instant {
        *self.used.lock()
    }

    /// Returns when something is to be done without an event.
    fn next_time(&self) -> Option<Instant> {
        let attempt = match &self.attempt {
            Attempt::None => None,
            Attempt::At(time) => Some(*time),
            Attempt::UnderWay { until, .. } => Some(*until),
        };
        let before = self.before.as_ref().map(|(_, until)| *until);
        let unused = self.present.as_ref().map(|_| self.used() + IDLE * 11 / 10);
        [attempt, before, unused].into_iter().flatten().min()
    }

    fn on_time(&mut self) {
        let now = now();
        if self.before.as_ref().is_some_and(|(_, until)| *until <= now) {
            self.before = None;
        }
        if self.is_unused() {
            self.attempt = Attempt::None;
            self.present = None;
            self.status.send_replace(Status::Idle);
        }
        match &self.attempt {
            Attempt::At(time) if *time <= now => self.connect(),
            Attempt::UnderWay { until, .. } if *until <= now => {
                self.on_failure(&failed("no message has arrived"));
            }
            _ => {}
        }
    }
}

fn failed(words: &str) -> EngineError {
    EngineError::new(EngineErrorKind::NotConnected, words)
}

fn pauses() -> Backoff {
    Backoff::new(Duration::from_millis(100), Duration::from_secs(20))
}
