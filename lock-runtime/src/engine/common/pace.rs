//! When to connect again, for how long to try, and what is logged of it.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::event::{EngineEvent, EventHandler};
use crate::engine::timeouts::Timeouts;
use crate::trace;
use crate::util::backoff::Backoff;
use crate::util::time::{deadline_in, elapsed_since, now, sleep_until};
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// The timeout of the first try to replace a connection, which doubles with each further one: a try that is
/// never answered must not cost short leases all their time.
pub(crate) const MIN_TIMEOUT: Duration = Duration::from_millis(250);

/// A connection that breaks sooner is replaced after a pause, so that a server which ends every connection is
/// not connected to without end.
const LASTING: Duration = Duration::from_secs(1);

/// The longest of those pauses. They are shorter than those after a failure, since each connection may have
/// carried a renewal: leases outlast connections that are killed again and again.
const MAX_REPLACING: Duration = Duration::from_millis(50);

pub(crate) struct Pace {
    server: Arc<str>,
    carries: &'static str,
    timeouts: Timeouts,
    /// The timeout of the first try.
    min_timeout: Duration,
    timeout: Duration,
    backoff: Backoff,
    /// The pauses before connections that did not last are replaced.
    replacing: Backoff,
    /// When the last connection was made.
    made_at: Instant,
    /// Where the result of the first try goes, if a caller awaits it.
    first: Option<oneshot::Sender<Result<(), EngineError>>>,
    log: trace::Connection,
    handler: EventHandler,
    /// The handler knows that the connection is broken.
    is_broken: bool,
}

/// The result of the first try to connect.
pub(crate) struct FirstTry(oneshot::Receiver<Result<(), EngineError>>);

impl Pace {
    /// Begins to connect in the background. `carries` is the purpose of the connections, in words. `handler`
    /// is called when there is no connection for some time.
    pub(crate) fn new(
        (server, carries): (&dyn Display, &'static str),
        min_timeout: Duration,
        timeouts: &Timeouts,
        handler: EventHandler,
    ) -> Pace {
        Pace {
            server: server.to_string().into(),
            carries,
            timeouts: timeouts.clone(),
            min_timeout,
            timeout: min_timeout,
            backoff: backoff(),
            replacing: replacing(),
            made_at: now(),
            first: None,
            log: trace::Connection::default(),
            handler,
            is_broken: false,
        }
    }

    /// Lets the first try last for the connect timeout, and gives its result to the caller, who reports a
    /// failure.
    pub(crate) fn awaited(mut self) -> (Pace, FirstTry) {
        let (first, result) = oneshot::channel();
        self.first = Some(first);
        (self, FirstTry(result))
    }

    /// Returns how long the next try may last.
    pub(crate) fn next_timeout(&mut self) -> Duration {
        if self.first.is_some() {
            return self.timeouts.connect;
        }
        let timeout = self.timeout.min(self.timeouts.connect);
        self.timeout = timeout.saturating_mul(2);
        timeout
    }

    /// Records that the try has made a connection.
    pub(crate) fn made(&mut self) {
        self.made_at = now();
        self.timeout = self.min_timeout;
        self.backoff = backoff();
        self.log.made(&self.server, self.carries);
        self.mended();
        if let Some(first) = self.first.take() {
            let _ = first.send(Ok(()));
        }
    }

    /// Records that the try has failed, and returns why there is no connection now. Only while the engine is
    /// opened is a rejection final: a server that rejects the password later may accept it again.
    pub(crate) fn failed(&mut self, error: EngineError) -> EngineError {
        match self.first.take() {
            Some(first) => _ = first.send(Err(error.clone())),
            None => {
                self.log.failed(&self.server, self.carries, &error);
                if !std::mem::replace(&mut self.is_broken, true) {
                    let broken = EngineEvent::ConnectionBroken(self.server.clone(), error.clone());
                    (self.handler)(broken);
                }
            }
        }
        let kind = match self.timeouts.is_open() {
            true => EngineErrorKind::NotConnected,
            false => error.kind,
        };
        EngineError { kind, ..error }
    }

    /// Waits before the next try.
    pub(crate) async fn pause(&mut self) {
        sleep_until(deadline_in(self.backoff.pause())).await;
    }

    /// Waits before a connection that has ended is replaced, unless it lasted.
    pub(crate) async fn ended(&mut self) {
        if let Some(pause) = self.pause_after_use() {
            sleep_until(deadline_in(pause)).await;
        }
    }

    /// Reports that a broken connection was replaced, or is given up.
    fn mended(&mut self) {
        if std::mem::take(&mut self.is_broken) {
            (self.handler)(EngineEvent::ConnectionMended(self.server.clone()));
        }
    }

    fn pause_after_use(&mut self) -> Option<Duration> {
        if elapsed_since(self.made_at) < LASTING {
            return Some(self.replacing.pause());
        }
        self.replacing = replacing();
        None
    }
}

impl Drop for Pace {
    fn drop(&mut self) {
        self.mended();
    }
}

impl FirstTry {
    /// Waits for the result.
    pub(crate) async fn result(self) -> Result<(), EngineError> {
        self.0.await.unwrap_or_else(|_| {
            let words = "the I/O thread has ended";
            Err(EngineError::new(EngineErrorKind::NotConnected, words))
        })
    }
}

fn backoff() -> Backoff {
    Backoff::new(Duration::from_millis(10), Duration::from_millis(400))
}

fn replacing() -> Backoff {
    Backoff::new(Duration::from_millis(10), MAX_REPLACING)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    /// A lease must outlast connections that are killed again and again.
    #[test]
    fn a_connection_that_did_not_last_is_replaced_soon() {
        let timeouts = Timeouts::of(&Config::new("memory://"));
        let mut pace = Pace::new((&"a", "requests"), MIN_TIMEOUT, &timeouts, Arc::new(|_| {}));
        for _ in 0..20 {
            pace.made();
            let pause = pace.pause_after_use().unwrap();
            assert!(!pause.is_zero() && pause <= MAX_REPLACING, "{pause:?}");
        }
    }

    /// Whatever becomes of a broken connection, its server is not reported as down for ever.
    #[test]
    fn a_connection_that_is_given_up_counts_as_broken_no_more() {
        let (sender, events) = std::sync::mpsc::channel();
        let handler: EventHandler = Arc::new(move |event| {
            let is_broken = matches!(event, EngineEvent::ConnectionBroken(..));
            let _ = sender.send(is_broken);
        });
        let timeouts = Timeouts::of(&Config::new("memory://"));
        let mut pace = Pace::new((&"a", "requests"), MIN_TIMEOUT, &timeouts, handler);
        for _ in 0..2 {
            pace.failed(EngineError::no_reply());
        }
        drop(pace);
        assert_eq!(events.iter().collect::<Vec<_>>(), [true, false]);
    }
}
