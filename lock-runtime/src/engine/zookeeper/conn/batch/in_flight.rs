//! The requests of a session: those that wait for a connection, and those that wait for a reply.

use crate::engine::token::Token;
use crate::engine::zookeeper::wire::error::Failure;
use crate::engine::zookeeper::wire::messages::{Incoming, Watch};
use crate::engine::zookeeper::wire::reply::Reply;
use crate::engine::zookeeper::wire::request::Request;
use crate::util::clock::Timestamp;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// A request that has not been sent.
pub(crate) struct Unsent {
    pub(crate) id: u64,
    pub(crate) request: Request,
    pub(crate) waiting: Waiting,
    pub(crate) deadline: Instant,
}

/// Who waits for the reply to a request.
pub(crate) struct Waiting {
    pub(crate) reply: oneshot::Sender<Result<Reply, Failure>>,
    pub(crate) watcher: Option<Watcher>,
}

/// What is notified when the watch fires that a request leaves.
#[derive(Clone, Debug)]
pub(crate) struct Watcher {
    /// `None` if no claim is: the watch shows only that its node exists.
    pub(crate) token: Option<Token>,
    /// Is set before that if the node whose data is watched was deleted.
    pub(crate) saw_end: Arc<AtomicBool>,
    /// Is dropped when the watch fires, or ends with its connection.
    alarm: Option<Arc<oneshot::Sender<()>>>,
}

impl Watcher {
    /// Returns a watcher that notifies a claim.
    pub(crate) fn new(token: Token) -> Watcher {
        Watcher {
            token: Some(token),
            saw_end: Arc::default(),
            alarm: None,
        }
    }

    /// Returns a watcher that notifies no claim.
    pub(crate) fn silent() -> Watcher {
        Watcher {
            token: None,
            saw_end: Arc::default(),
            alarm: None,
        }
    }

    /// Returns a watcher that notifies no claim, with what completes when the watch fires, or is none any
    /// more.
    pub(crate) fn with_alarm() -> (Watcher, oneshot::Receiver<()>) {
        let (alarm, fired) = oneshot::channel();
        let watcher = Watcher {
            alarm: Some(Arc::new(alarm)),
            ..Watcher::silent()
        };
        (watcher, fired)
    }

    /// Returns `true` if nothing is left to be notified beside a new watcher of the same node.
    pub(crate) fn is_replaced_by(&self, new: &Watcher) -> bool {
        match &self.alarm {
            Some(alarm) => alarm.is_closed(),
            None => self.token == new.token,
        }
    }
}

/// A request that was sent on the present connection.
struct Sent {
    xid: i32,
    request: Request,
    /// `None` for a request of the session itself.
    waiting: Option<Waiting>,
    at: Timestamp,
    instant: Instant,
}

/// The requests that were sent on one connection, in order. A server replies in this order.
#[derive(Default)]
pub(crate) struct InFlight {
    sent: VecDeque<Sent>,
    last_xid: i32,
}

/// A request whose reply was delivered.
pub(crate) struct Delivered {
    pub(crate) sent: Timestamp,
    pub(crate) was_write: bool,
    /// The watch that the server has from now on, and the claim that is to be notified. What fires it comes
    /// later.
    pub(crate) watch: Option<(Watch, Watcher)>,
}

impl InFlight {
    /// Returns the number of the next request.
    pub(crate) fn number(&mut self, request: &Request) -> i32 {
        // A ping has a number of its own; the others are positive.
        if matches!(request, Request::Ping) {
            return -2;
        }
        self.last_xid = self.last_xid.checked_add(1).unwrap_or(1);
        self.last_xid
    }

    /// Records a request that is sent now with that number.
    pub(crate) fn push(
        &mut self,
        xid: i32,
        request: Request,
        waiting: Option<Waiting>,
        (at, instant): (Timestamp, Instant),
    ) {
        self.sent.push_back(Sent {
            xid,
            request,
            waiting,
            at,
            instant,
        });
    }

    /// Delivers the reply to the oldest request. Fails if it is not the reply to that one.
    pub(crate) fn deliver(&mut self, reply: Incoming<'_>) -> Result<Option<Delivered>, Failure> {
        let Incoming::Reply { xid, result, .. } = reply else {
            return Ok(None);
        };
        // Otherwise it stays, and fails with the others: the server may have carried it out.
        let expected = self.sent.front().is_some_and(|oldest| oldest.xid == xid);
        let oldest = expected.then(|| self.sent.pop_front()).flatten();
        let oldest = oldest.ok_or(Failure::Malformed)?;
        let parsed = result.and_then(|body| oldest.request.parse_reply(body));
        let delivered = match &parsed {
            Ok(_) => Delivered {
                sent: oldest.at,
                was_write: oldest.request.is_write(),
                watch: oldest
                    .request
                    .watch()
                    .zip(oldest.waiting.as_ref().and_then(|it| it.watcher.clone())),
            },
            Err(Failure::SessionExpired) => return Err(Failure::SessionExpired),
            // The session is on another connection.
            Err(Failure::Server(-118)) => return Err(Failure::Server(-118)),
            Err(_) => Delivered {
                sent: oldest.at,
                was_write: false,
                watch: None,
            },
        };
        if let Some(waiting) = oldest.waiting {
            // The caller may have left.
            let _ = waiting.reply.send(parsed);
        }
        Ok(Some(delivered))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    /// Returns when the oldest request was sent.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        self.sent.front().map(|oldest| oldest.instant)
    }

    /// Fails all requests: the connection has ended.
    pub(crate) fn fail(self, why: &Arc<str>) {
        for waiting in self.sent.into_iter().filter_map(|sent| sent.waiting) {
            let _ = waiting.reply.send(Err(Failure::NoReply(why.clone())));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::util::clock::Clock;
    use crate::util::time::now;

    /// Sends a request for a node's data with a watch, and returns its reply.
    fn look(in_flight: &mut InFlight, watcher: Token) -> oneshot::Receiver<Result<Reply, Failure>> {
        let (reply, receiver) = oneshot::channel();
        let request = Request::Data {
            path: "/a".into(),
            watch: true,
        };
        let waiting = Waiting {
            reply,
            watcher: Some(Watcher::new(watcher)),
        };
        let at = (Clock::manual().now(), now());
        let xid = in_flight.number(&request);
        in_flight.push(xid, request, Some(waiting), at);
        receiver
    }

    fn reply(xid: i32, result: Result<&[u8], Failure>) -> Incoming<'_> {
        let zxid = 7;
        Incoming::Reply { xid, zxid, result }
    }

    /// A watch that fires between the request and the reply is that of an earlier request.
    #[test]
    fn a_watch_counts_from_the_reply_on() {
        let (one, other) = (Token::random(), Token::random());
        let mut in_flight = InFlight::default();
        let _replies = [look(&mut in_flight, one), look(&mut in_flight, other)];
        let delivered = in_flight
            .deliver(reply(1, Ok(&[0; 4 + 68])))
            .unwrap()
            .unwrap();
        let watch = Watch::Node("/a".into());
        let (watched, watcher) = delivered.watch.unwrap();
        assert_eq!((watched, watcher.token), (watch, Some(one)));
        let delivered = in_flight.deliver(reply(2, Err(Failure::NoNode)));
        assert!(
            delivered.unwrap().unwrap().watch.is_none(),
            "there is no node"
        );
    }

    /// What waits for a change would take the end of its watch for one.
    #[test]
    fn an_alarm_stays_beside_others() {
        let ((one, fired), (other, _)) = (Watcher::with_alarm(), Watcher::with_alarm());
        assert!(!one.is_replaced_by(&other));
        drop(fired);
        assert!(one.is_replaced_by(&other));
    }

    #[test]
    fn a_request_may_be_carried_out_whose_reply_is_malformed() {
        let mut in_flight = InFlight::default();
        let mut receiver = look(&mut in_flight, Token::random());
        assert!(in_flight.deliver(reply(9, Ok(&[]))).is_err());
        in_flight.fail(&"malformed".into());
        let reply = receiver.try_recv();
        assert!(matches!(reply, Ok(Err(Failure::NoReply(_)))), "{reply:?}");
    }
}
