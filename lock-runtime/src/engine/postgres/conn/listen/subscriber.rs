//! The connections that listen: one that works, one that is to replace it, and the one before.
//!
//! The one before is kept until no claim in a queue names its channel any more.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::event::{EngineEvent, EventHandler};
use crate::engine::postgres::address::Address;
use crate::engine::postgres::conn::batch::queue::RequestQueue;
use crate::engine::postgres::conn::batch::request::Request;
use crate::engine::postgres::conn::listen::status::{SharedStatus, Status};
use crate::engine::postgres::conn::listen::subscription::{
    Event, MESSAGES, Subscription, subscribe,
};
use crate::engine::timeouts::{GRANT_TTL, Timeouts, WAITER_TTL};
use crate::process::ProcessId;
use crate::trace;
use crate::util::backoff::Backoff;
use crate::util::io_thread::{AbortOnDrop, IoThread};
use crate::util::time::{deadline_in, elapsed_since, now, timeout_at};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// How long the connection is kept while no claim waits.
const IDLE: Duration = Duration::from_secs(60);
/// How long a message to itself may take.
const ECHO: Duration = Duration::from_secs(1);

/// The connection that is to replace the present one.
enum Successor {
    /// None is needed.
    None,
    /// The last one failed, and another one follows then.
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
    address: Arc<Address>,
    timeouts: Timeouts,
    process: ProcessId,
    shared: Arc<SharedStatus>,
    queue: Arc<RequestQueue>,
    handler: EventHandler,
    sender: mpsc::UnboundedSender<Event>,
    events: mpsc::UnboundedReceiver<Event>,
    /// The number of connections so far.
    connections: u64,
    successor: Successor,
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
        address: Arc<Address>,
        timeouts: Timeouts,
        (process, shared): (ProcessId, Arc<SharedStatus>),
        queue: Arc<RequestQueue>,
        handler: EventHandler,
    ) -> Subscriber {
        let (sender, events) = mpsc::unbounded_channel();
        Subscriber {
            io,
            address,
            timeouts,
            process,
            shared,
            queue,
            handler,
            sender,
            events,
            connections: 0,
            successor: Successor::None,
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
            Event::Wanted if self.shared.is_idle() => {
                self.shared.set(Status::Starting);
                self.connect();
            }
            Event::Replace if self.may_be_replaced() => self.connect(),
            Event::Opened(of, opened) => self.on_opened(of, opened),
            Event::Message(of, message) if message == "echo" => self.on_echo(of),
            Event::Message(_, message) => {
                if let Some(event) = MESSAGES.parse(&message) {
                    (self.handler)(event);
                }
            }
            Event::Asked(text) => (self.handler)(EngineEvent::Asked(text)),
            Event::Ended(of) => self.on_end(of),
            Event::Wanted | Event::Replace | Event::Closed => {}
        }
    }

    /// Returns `false` if the message may have been sent to the connection before: a grant that lasts is no news.
    fn may_be_replaced(&self) -> bool {
        let lasts = |present: &Subscription| elapsed_since(present.since) > GRANT_TTL;
        matches!(self.successor, Successor::None) && self.present.as_deref().is_some_and(lasts)
    }

    fn connect(&mut self) {
        self.connections += 1;
        let number = self.connections;
        let (io, address) = (self.io, self.address.clone());
        let (timeouts, sender) = (self.timeouts.clone(), self.sender.clone());
        let (timeout, process) = (timeouts.connect, self.process);
        let task = self.io.spawn(async move {
            let subscription = subscribe(io, &address, &timeouts, process, number, &sender).await;
            let _ = sender.send(Event::Opened(number, subscription.map(Box::new)));
        });
        self.successor = Successor::UnderWay {
            number,
            // Later than the task ends, which sends its event unless it panics.
            until: deadline_in(timeout * 3 + ECHO),
            subscription: None,
            _task: AbortOnDrop(task.abort_handle()),
        };
    }

    fn on_opened(&mut self, of: u64, opened: Result<Box<Subscription>, EngineError>) {
        let Successor::UnderWay {
            number,
            until,
            subscription,
            ..
        } = &mut self.successor
        else {
            return;
        };
        match opened {
            _ if *number != of => {}
            Ok(opened) => {
                let echo = format!("{} echo", opened.channel);
                *until = deadline_in(ECHO);
                *subscription = Some(opened);
                self.queue.push(Request::Notify(vec![echo]));
            }
            Err(error) => self.on_failure(&error),
        }
    }

    fn on_echo(&mut self, of: u64) {
        if let Successor::UnderWay {
            number,
            subscription,
            ..
        } = &mut self.successor
            && *number == of
            && let Some(heard) = subscription.take()
        {
            self.shared.set(Status::Listening(heard.channel.clone()));
            self.successor = Successor::None;
            let log = self.log.get_or_insert_default();
            log.made(&self.address.listen, "messages");
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
            if matches!(self.successor, Successor::None) {
                self.successor = Successor::At(deadline_in(self.backoff.pause()));
            }
            self.report_down();
        }
        if matches!(&self.successor, Successor::UnderWay { number, .. } if *number == of) {
            self.on_failure(&failed("the connection has ended"));
        }
    }

    fn on_failure(&mut self, error: &EngineError) {
        if let Some(log) = &mut self.log {
            log.failed(&self.address.listen, "messages", error);
        }
        self.successor = Successor::At(deadline_in(self.backoff.pause()));
        // It was to be replaced.
        self.keep_as_before();
        self.report_down();
    }

    fn keep_as_before(&mut self) {
        if let Some(present) = self.present.take() {
            // A claim that has not asked again for this long has left its queue.
            self.before = Some((present, deadline_in(WAITER_TTL)));
        }
    }

    /// Lets all claims ask again, without a channel: a claim with a channel to which no process listens counts as dead.
    fn report_down(&self) {
        let before = self.shared.set(Status::Down);
        if matches!(before, Status::Listening(_)) {
            (self.handler)(EngineEvent::Resubscribed);
        }
    }

    /// Returns when something is to be done without an event.
    fn next_time(&self) -> Option<Instant> {
        let successor = match &self.successor {
            Successor::None => None,
            Successor::At(time) => Some(*time),
            Successor::UnderWay { until, .. } => Some(*until),
        };
        let before = self.before.as_ref().map(|(_, until)| *until);
        let used = self.present.as_ref().and_then(|_| self.shared.used());
        let unused = used.map(|used| used + IDLE * 11 / 10);
        [successor, before, unused].into_iter().flatten().min()
    }

    fn on_time(&mut self) {
        let now = now();
        if self.before.as_ref().is_some_and(|(_, until)| *until <= now) {
            self.before = None;
        }
        if self.shared.is_unused_for(IDLE) {
            self.successor = Successor::None;
            self.present = None;
            self.shared.set(Status::Idle);
        }
        match &self.successor {
            Successor::At(time) if *time <= now => self.connect(),
            Successor::UnderWay { until, .. } if *until <= now => {
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
