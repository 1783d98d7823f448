//! An engine whose servers could not be reached when its manager was made.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::forward::Forward;
use crate::engine::inspection::Inspection;
use crate::engine::request::EngineFuture;
use crate::engine::requests::{answer_operations, answer_requests};
use crate::engine::traits::Engine;
use crate::error::LockError;
use crate::util::io_thread::IoThread;
use once_cell::sync::OnceCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::watch;
use tokio::time::Instant;

/// Forwards everything to the engine, once that is open. Until then every request fails, and nothing is sent.
pub(crate) struct LateEngine {
    io: IoThread,
    /// The servers, without credentials.
    address: Arc<str>,
    engine: OnceCell<Arc<dyn Engine>>,
    /// Why it is not open.
    failure: watch::Sender<Option<EngineError>>,
    /// It must listen from the beginning.
    listens: AtomicBool,
}

impl LateEngine {
    /// Creates an engine that is not open because of that error.
    pub(crate) fn new(io: IoThread, address: Arc<str>, error: LockError) -> LateEngine {
        LateEngine {
            io,
            address,
            engine: OnceCell::new(),
            failure: watch::Sender::new(Some(failure(error))),
            listens: AtomicBool::new(false),
        }
    }

    /// Records why it is not open now.
    pub(crate) fn failed(&self, error: LockError) {
        self.failure.send_if_modified(|present| {
            // A shutdown is for good, and a try may be under way meanwhile.
            let is_over = present.as_ref().is_some_and(is_shutdown);
            if !is_over {
                *present = Some(failure(error));
            }
            !is_over
        });
    }

    /// Forwards to that engine from now on.
    pub(crate) fn open(&self, engine: Arc<dyn Engine>) {
        let engine = self.engine.get_or_init(|| engine);
        if self.listens.load(Ordering::SeqCst) {
            engine.listen();
        }
        self.failure.send_replace(None);
    }

    fn error(&self) -> EngineError {
        let failure = self.failure.borrow().clone();
        failure.unwrap_or_else(|| {
            EngineError::new(EngineErrorKind::NotConnected, "connecting to the server")
        })
    }

    /// Returns the engine that answers requests.
    async fn pass(&self, _: Instant) -> Result<&dyn Engine, EngineError> {
        self.behind().ok_or_else(|| self.error())
    }

    /// Those that wait for the first connection wait no more.
    async fn drain(&self, deadline: Instant) -> Result<(), EngineError> {
        match self.behind() {
            Some(engine) => engine.drain(deadline).await,
            None => {
                self.failed(LockError::ShuttingDown { key: None });
                Ok(())
            }
        }
    }

    async fn settled(&self, deadline: Instant) -> Result<(), EngineError> {
        let mut failure = self.failure.subscribe();
        let settled = failure.wait_for(|failure| {
            let passes = |error: &EngineError| error.kind == EngineErrorKind::NotConnected;
            !failure.as_ref().is_some_and(passes)
        });
        let settled = self.io.timeout_at(deadline, settled).await;
        match settled.as_ref().map(|settled| settled.as_deref()) {
            Ok(Ok(None)) => Ok(()),
            Ok(Ok(Some(error))) => Err(error.clone()),
            _ => Err(self.error()),
        }
    }
}

fn is_shutdown(error: &EngineError) -> bool {
    matches!(
        error.source.downcast_ref(),
        Some(LockError::ShuttingDown { .. })
    )
}

/// An outage may pass; everything else fails a call at once.
fn failure(error: LockError) -> EngineError {
    match error {
        LockError::Unavailable { source, .. } => EngineError {
            kind: EngineErrorKind::NotConnected,
            source,
        },
        error => EngineError::new(EngineErrorKind::Rejected, error),
    }
}

answer_requests! {
    LateEngine:
    pass[acquire enqueue cancel release renew fencing_token raise_fencing_token downgrade prove]
    own[drain]
}

answer_operations! { LateEngine: pass[ping views names report reports ask recall take] }

impl Forward for LateEngine {
    fn behind(&self) -> Option<&dyn Engine> {
        self.engine.get().map(|engine| &**engine)
    }

    fn until_open(&self, deadline: Instant) -> Option<EngineFuture<'_, ()>> {
        match self.behind() {
            Some(_) => None,
            None => Some(Box::pin(self.settled(deadline))),
        }
    }

    fn listen_later(&self) {
        self.listens.store(true, Ordering::SeqCst);
        // It may have been opened meanwhile.
        if let Some(engine) = self.behind() {
            engine.listen();
        }
    }

    fn inspect_early(&self) -> Inspection {
        let mut found = Inspection::default();
        found.add_unreachable(&self.address, &self.error());
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::{Context, Poll, Waker};

    fn unavailable() -> LockError {
        LockError::Unavailable {
            key: None,
            server: "redis://h".into(),
            source: Arc::new(std::io::Error::other("refused")),
        }
    }

    /// A try to connect may end after the shutdown.
    #[tokio::test]
    async fn shutdown_ends_the_wait_for_a_connection_for_good() {
        let io = IoThread::start().unwrap();
        let engine = LateEngine::new(io, "redis://h".into(), unavailable());
        engine.drain(Instant::now()).await.unwrap();
        engine.failed(unavailable());
        let mut waits = engine.first_connection(Instant::now()).unwrap();
        let waited = waits.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(waited, Poll::Ready(Err(error)) if is_shutdown(&error)));
    }
}
