//! A connection that is replaced when it breaks.
//!
//! A task on the I/O thread makes a new connection when the present one has ended. Nothing is ever sent
//! twice.

use crate::engine::common::pace::Pace;
use crate::engine::error::{EngineError, EngineErrorKind};
use crate::util::io_thread::{AbortOnDrop, IoThread, kept};
use std::future::{Future, pending};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// The present connection to a server. Dropping it ends the connection.
pub(crate) struct Upkeep<C> {
    io: IoThread,
    state: Arc<watch::Sender<State<C>>>,
    _task: AbortOnDrop,
}

enum State<C> {
    /// The first try to make a connection, or to replace one, is under way.
    Connecting,
    Up(Arc<C>),
    /// The last try failed with this error; more follow.
    Down(EngineError),
}

/// A connection, which ends when it is dropped. One that keeps itself up never ends.
pub(crate) trait Kept: Send + Sync + 'static {
    /// Returns `true` once no more requests can be sent.
    fn has_ended(&self) -> bool {
        false
    }

    /// Waits until the connection has to be replaced.
    fn ended(&self) -> impl Future<Output = ()> + Send {
        pending()
    }

    /// Ends the connection.
    fn end(&self) {}
}

/// Makes connections, one after the other.
pub(crate) trait Connect: Send + 'static {
    type Connection: Kept;

    /// Makes the next connection within that time.
    fn connect(
        &mut self,
        timeout: Duration,
    ) -> impl Future<Output = Result<Arc<Self::Connection>, EngineError>> + Send;

    /// Called once the new connection can be used.
    fn connected(&mut self, _connection: &Arc<Self::Connection>) {}
}

impl<C: Kept> Upkeep<C> {
    /// Starts connecting, and keeps a connection up from then on.
    pub(crate) fn start(
        io: IoThread,
        mut pace: Pace,
        mut connect: impl Connect<Connection = C>,
    ) -> Upkeep<C> {
        let state = Arc::new(watch::Sender::new(State::Connecting));
        let of_task = state.clone();
        let task = io.spawn(kept(async move || {
            keep_up(&of_task, &mut pace, &mut connect).await;
        }));
        Upkeep {
            io,
            state,
            _task: AbortOnDrop(task.abort_handle()),
        }
    }

    /// Returns the present connection, if there is one.
    pub(crate) fn present(&self) -> Option<Arc<C>> {
        self.state.borrow().up().cloned()
    }

    /// Returns the connection, or why there is none. Waits while a first try is under way; a patient caller
    /// also waits while more follow.
    pub(crate) async fn connection(&self, is_patient: bool) -> Result<Arc<C>, EngineError> {
        let mut state = self.state.subscribe();
        let settled = state.wait_for(|state| match state {
            State::Down(_) => !is_patient,
            state => state.up().is_some(),
        });
        match settled.await.as_deref() {
            Ok(State::Up(connection)) => Ok(connection.clone()),
            Ok(State::Down(error)) => Err(error.clone()),
            _ => Err(connecting()),
        }
    }

    /// Returns the connection like `connection`, at most until the deadline.
    pub(crate) async fn connection_by(
        &self,
        deadline: Instant,
        is_patient: bool,
    ) -> Result<Arc<C>, EngineError> {
        if let Some(present) = self.present() {
            return Ok(present);
        }
        // Boxed: a request for which there is a connection does not need the room.
        let connection = Box::pin(self.connection(is_patient));
        let connection = self.io.timeout_at(deadline, connection).await;
        connection.unwrap_or_else(|_| Err(connecting()))
    }
}

impl<C: Kept> State<C> {
    fn up(&self) -> Option<&Arc<C>> {
        match self {
            State::Up(connection) if !connection.has_ended() => Some(connection),
            _ => None,
        }
    }
}

/// Makes a connection, and a new one whenever the present one has ended.
async fn keep_up<K: Connect>(
    state: &watch::Sender<State<K::Connection>>,
    pace: &mut Pace,
    connect: &mut K,
) {
    loop {
        match connect.connect(pace.next_timeout()).await {
            Ok(connection) => {
                state.send_replace(State::Up(connection.clone()));
                pace.made();
                connect.connected(&connection);
                connection.ended().await;
                connection.end();
                drop(connection);
                state.send_replace(State::Connecting);
                pace.ended().await;
            }
            Err(error) => {
                state.send_replace(State::Down(pace.failed(error)));
                pace.pause().await;
            }
        }
    }
}

fn connecting() -> EngineError {
    let words = "connecting to the server";
    EngineError::new(EngineErrorKind::NotConnected, words)
}

// In virtual time.
#[cfg(feature = "testing")]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::engine::common::pace::MIN_TIMEOUT;
    use crate::engine::timeouts::Timeouts;
    use crate::util::runtime_clock::RuntimeClock;
    use crate::util::time::{deadline_in, now};
    use std::sync::atomic::{AtomicBool, Ordering};
    use tokio::runtime::Handle;
    use tokio::sync::{Notify, mpsc};

    #[derive(Default)]
    struct Connection {
        ended: AtomicBool,
        changed: Notify,
    }

    impl Kept for Connection {
        fn has_ended(&self) -> bool {
            self.ended.load(Ordering::SeqCst)
        }

        async fn ended(&self) {
            self.changed.notified().await;
        }

        fn end(&self) {
            self.ended.store(true, Ordering::SeqCst);
            self.changed.notify_one();
        }
    }

    /// Makes what the test gives, and reports how long each try may last; panics if the test gives `None`.
    struct Given {
        results: mpsc::UnboundedReceiver<Option<Result<Arc<Connection>, EngineError>>>,
        tries: mpsc::UnboundedSender<Duration>,
        _clock: RuntimeClock,
    }

    impl Connect for Given {
        type Connection = Connection;

        async fn connect(&mut self, timeout: Duration) -> Result<Arc<Connection>, EngineError> {
            let _ = self.tries.send(timeout);
            let result = self.results.recv().await;
            result.expect("the test gives results").expect("a panic")
        }
    }

    type Results = mpsc::UnboundedSender<Option<Result<Arc<Connection>, EngineError>>>;

    fn begin() -> (
        Upkeep<Connection>,
        Results,
        mpsc::UnboundedReceiver<Duration>,
    ) {
        let timeouts = Timeouts::of(&Config::new("memory://"));
        timeouts.opened();
        let ((results, given), (tries, limits)) =
            (mpsc::unbounded_channel(), mpsc::unbounded_channel());
        let connect = Given {
            results: given,
            tries,
            _clock: RuntimeClock::of(&Handle::current()),
        };
        let pace = Pace::new((&"a", "requests"), MIN_TIMEOUT, &timeouts, Arc::new(|_| {}));
        let io = IoThread::start().unwrap().yielding();
        let upkeep = Upkeep::start(io, pace, connect);
        (upkeep, results, limits)
    }

    fn refused() -> EngineError {
        EngineError::new(EngineErrorKind::Rejected, "refused")
    }

    #[tokio::test(start_paused = true)]
    async fn tries_last_longer_and_only_a_patient_caller_waits_for_a_further_one() {
        let (upkeep, results, mut tries) = begin();
        for n in 0..3 {
            results.send(Some(Err(refused()))).unwrap();
            assert_eq!(tries.recv().await, Some(MIN_TIMEOUT * (1 << n)));
        }
        let error = upkeep.connection(false).await.err().unwrap();
        assert_eq!(error.kind, EngineErrorKind::NotConnected);
        assert_eq!(error.to_string(), "refused");
        let soon = deadline_in(Duration::from_millis(5));
        assert!(upkeep.connection_by(soon, true).await.is_err());
        results.send(Some(Ok(Arc::default()))).unwrap();
        assert!(!upkeep.connection(true).await.unwrap().has_ended());
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_ends_no_upkeep() {
        let (upkeep, results, mut tries) = begin();
        results.send(None).unwrap();
        results.send(Some(Ok(Arc::default()))).unwrap();
        assert!(upkeep.connection(false).await.is_ok());
        tries.recv().await.unwrap();
        tries.recv().await.unwrap();
        drop(upkeep);
        assert_eq!(tries.recv().await, None);
    }

    /// A server that ends each connection soon is not connected to without pauses.
    #[tokio::test(start_paused = true)]
    async fn connections_that_do_not_last_are_replaced_after_pauses() {
        let (upkeep, results, _tries) = begin();
        let begun = now();
        for _ in 0..6 {
            results.send(Some(Ok(Arc::default()))).unwrap();
            upkeep.connection(true).await.unwrap().end();
            assert!(upkeep.present().is_none());
        }
        // At least half of 10, 20, 40, 50 and 50 ms.
        assert!(begun.elapsed() >= Duration::from_millis(85));
    }
}
