//! Whether a connection has ended, and the probe that finds it out.

use crate::engine::etcd::wire::error::Failure;
use crate::engine::timeouts::{NO_REPLY, Timeouts};
use crate::util::time::{deadline_in, sleep_until, timeout_at};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// The pause between two pings: more of them would make the server end the connection.
const PING_PAUSE: Duration = Duration::from_secs(3);

#[derive(Default)]
pub(crate) struct ConnectionState {
    ended: watch::Sender<bool>,
    /// `true` if it ended since the server did not reply.
    silent: AtomicBool,
    /// Why it ended, if it broke.
    cause: OnceLock<String>,
    /// Notified when a ping is to prove that the server is there.
    probe_wanted: Notify,
}

impl ConnectionState {
    pub(crate) fn end(&self) {
        self.ended.send_replace(true);
    }

    /// Records why the connection broke.
    pub(crate) fn broken(&self, error: &h2::Error) {
        let _ = self.cause.set(error.to_string());
    }

    /// Returns the failure, with a remedy if the server did not reply, and with the cause if the connection
    /// broke.
    pub(crate) fn explain(&self, failure: Failure) -> Failure {
        match (failure, self.cause.get()) {
            (Failure::NoReply(_), _) if self.silent.load(Ordering::Acquire) => {
                Failure::no_reply(NO_REPLY)
            }
            (Failure::NoReply(_), Some(cause)) => Failure::no_reply(cause.clone()),
            (Failure::NotSent(_), Some(cause)) => Failure::not_sent(cause.clone()),
            (failure, _) => failure,
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        *self.ended.borrow()
    }

    /// Waits for the end.
    pub(crate) async fn ended(&self) {
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
    }

    /// Does the work until the connection ends; returns `None` if it ended first.
    pub(crate) async fn until_ended<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let (mut ended, mut work) = (pin!(self.ended()), pin!(work));
        poll_fn(|context| match ended.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(None),
            Poll::Pending => work.as_mut().poll(context).map(Some),
        })
        .await
    }

    /// Lets the connection be probed.
    pub(crate) fn probe_soon(&self) {
        self.probe_wanted.notify_one();
    }

    /// Ends the connection if the server does not reply to a ping while it owes a reply.
    pub(crate) async fn probe(&self, mut pings: h2::PingPong, timeouts: &Timeouts) {
        let probes = async {
            loop {
                self.probe_wanted.notified().await;
                let pong = pings.ping(h2::Ping::opaque());
                match timeout_at(deadline_in(timeouts.silence()), pong).await {
                    Ok(Ok(_)) => {}
                    Ok(Err(_)) => return,
                    Err(_) => return self.silent.store(true, Ordering::Release),
                }
                sleep_until(deadline_in(PING_PAUSE)).await;
            }
        };
        self.until_ended(probes).await;
        self.end();
    }
}
