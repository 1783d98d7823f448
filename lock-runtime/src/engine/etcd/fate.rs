//! Whether a connection has ended, and the probe that finds it out.

use crate::engine::etcd::failure::Failure;
use crate::engine::timeouts::{NO_REPLY, Timeouts};
use crate::util::time::{deadline_in, sleep_until, timeout_at};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// The pause between two pings: more of them would make the server end the connection.
const PING_PAUSE: Duration = Duration::from_secs(3);

#[derive(Default)]
pub(super) struct Fate {
    ended: watch::Sender<bool>,
    /// `true` if it ended since the server did not reply.
    silent: AtomicBool,
    /// Asks for a proof that the server is there.
    doubt: Notify,
}

impl Fate {
    pub(super) fn end(&self) {
        self.ended.send_replace(true);
    }

    /// Returns the failure, with a remedy if the server did not reply.
    pub(super) fn explain(&self, failure: Failure) -> Failure {
        match failure {
            Failure::Unanswered(_) if self.silent.load(Ordering::Acquire) => {
                Failure::unanswered(NO_REPLY)
            }
            failure => failure,
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        *self.ended.borrow()
    }

    /// Does the work until the connection ends; returns `None` if it ended first.
    pub(super) async fn until_ended<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut ends = self.ended.subscribe();
        let mut ended = pin!(ends.wait_for(|ended| *ended));
        let mut work = pin!(work);
        poll_fn(|context| match ended.as_mut().poll(context) {
            Poll::Ready(_) => Poll::Ready(None),
            Poll::Pending => work.as_mut().poll(context).map(Some),
        })
        .await
    }

    /// Has the connection probed.
    pub(super) fn doubt(&self) {
        self.doubt.notify_one();
    }

    /// Ends the connection if the server does not answer a ping while it owes an answer.
    pub(super) async fn probe(&self, mut pings: h2::PingPong, timeouts: &Timeouts) {
        let probes = async {
            loop {
                self.doubt.notified().await;
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
