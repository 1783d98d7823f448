//! State used by every part of a manager: the engine, the clock, the I/O thread, names and defaults.

use crate::config::{Config, HandoffLimits};
use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::opening::Opened;
use crate::engine::operations::Reading;
use crate::engine::recall::Recall;
use crate::engine::request::EngineFuture;
use crate::engine::retry::Retry;
use crate::engine::traits::Engine;
use crate::error::{LockError, TooMuch};
use crate::event::LockEvent;
use crate::lock::answers::Answers;
use crate::lock::known_processes::KnownProcesses;
use crate::lock::observed::Observed;
use crate::lock::report::reporter::Reporter;
use crate::lock::tasks::TaskTracker;
use crate::lock::telemetry::Telemetry;
use crate::options::{LockOptions, ReleaseMode, invalid_key};
use crate::process::ProcessId;
use crate::trace;
use crate::util::clock::Clock;
use crate::util::count::Count;
use crate::util::io_thread::IoThread;
use crate::util::sync::AtomicBool;
use crate::util::thread_end;
use crate::util::time::{deadline_in, now};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::Instant;

pub(crate) struct Context {
    pub(crate) io: IoThread,
    pub(crate) clock: Clock,
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) tasks: TaskTracker,
    /// The holds, and the tries of callers to acquire one.
    pub(crate) holds: Arc<Count>,
    pub(crate) defaults: Defaults,
    pub(crate) command_timeout: Duration,
    pub(crate) handoff: HandoffLimits,
    pub(crate) failures: trace::Failures,
    pub(crate) telemetry: Telemetry,
    pub(crate) process: ProcessId,
    pub(crate) reporter: Arc<Reporter>,
    pub(crate) known: KnownProcesses,
    pub(crate) observed: Observed,
    /// What processes answer of bodies that were to stop.
    pub(crate) answers: Answers,
    prefix: String,
    /// The server's address, without credentials.
    server: Arc<str>,
    closed: AtomicBool,
}

/// The manager's defaults for the options of a lock.
pub(crate) struct Defaults {
    pub(crate) ttl: Duration,
    pub(crate) wait: Duration,
    pub(crate) release: ReleaseMode,
    pub(crate) replicas: u32,
}

/// For how long a request is retried, and after which errors.
#[derive(Clone, Copy)]
pub(crate) enum Effort {
    /// The caller waits for the reply: only transient errors are retried.
    InCall { deadline: Instant },
    /// Every error is retried; after the shutdown has begun, for at most the ttl.
    InBackground { deadline: Instant, ttl: Duration },
}

impl Context {
    pub(crate) fn new(
        io: IoThread,
        clock: Clock,
        process: ProcessId,
        (engine, server): Opened,
        config: &Config,
    ) -> Context {
        let holds = Arc::new(Count::new());
        thread_end::watch_use(Arc::<Count>::downgrade(&holds));
        Context {
            io,
            clock,
            engine,
            tasks: TaskTracker::new(io),
            holds,
            defaults: Defaults {
                ttl: config.ttl,
                wait: config.wait,
                release: config.release,
                replicas: config.replicas,
            },
            command_timeout: config.command_timeout,
            handoff: config.handoff,
            failures: trace::Failures::default(),
            telemetry: Telemetry::new(config.event_handlers.clone()),
            process,
            known: KnownProcesses::default(),
            observed: Observed::default(),
            answers: Answers::default(),
            reporter: Arc::new(Reporter::new(config)),
            prefix: config.prefix.clone(),
            server,
            closed: AtomicBool::new(false),
        }
    }

    /// Returns `true` once the manager grants no more locks.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Returns the address of the server, or the addresses of all members, without credentials.
    pub(crate) fn server(&self) -> &Arc<str> {
        &self.server
    }

    /// Returns the name under which the engine stores the lock with that key.
    pub(crate) fn name_of(&self, key: &str) -> Arc<str> {
        [&self.prefix, key].concat().into()
    }

    pub(crate) fn key_of<'a>(&self, name: &'a str) -> &'a str {
        name.strip_prefix(&*self.prefix).unwrap_or(name)
    }

    /// Returns the address of the server that stores the lock, without credentials.
    pub(crate) fn server_of(&self, name: &str) -> Arc<str> {
        let node = self.engine.node_of(name);
        node.unwrap_or_else(|| self.server.clone())
    }

    /// Returns `true` if a holder with these options may want to know when another process waits, and would
    /// hear of it.
    pub(crate) fn is_recallable(&self, name: &str, options: LockOptions) -> bool {
        options.is_lazy() && self.engine.hears_recalls(name)
    }

    /// Begins to recall locks from another process. Whoever waits for one of them recalls it again.
    pub(crate) fn recall(&self, from: ProcessId, recalls: Vec<Recall>) {
        let (engine, deadline) = (self.engine.clone(), deadline_in(self.command_timeout));
        self.io.spawn_detached(async move {
            let _ = engine.recall(from, &recalls, deadline).await;
        });
    }

    /// Reports that another process has recalled a lock of this one. Call it under no mutex.
    pub(crate) fn publish_recall(&self, name: &str) {
        let key = self.key_of(name);
        self.telemetry.publish(&LockEvent::Recalled { key });
    }

    pub(crate) fn unavailable(&self, name: &str, error: EngineError) -> LockError {
        if error.kind == EngineErrorKind::InvalidKey {
            return invalid_key(
                self.key_of(name),
                "the server cannot store one of its characters; use others, or a database in the encoding UTF8",
            );
        }
        refusal(&error).unwrap_or_else(|| LockError::Unavailable {
            key: Some(self.key_of(name).into()),
            server: self.server.clone(),
            source: error.source,
        })
    }

    /// Returns the error of a request that concerns no lock in particular.
    pub(crate) fn server_unavailable(&self, error: EngineError) -> LockError {
        refusal(&error).unwrap_or_else(|| LockError::Unavailable {
            key: None,
            server: self.server.clone(),
            source: error.source,
        })
    }

    /// Begins to read what others have written.
    pub(crate) fn begin_reading(&self) -> Reading {
        Reading::begin(self.command_timeout)
    }

    /// Returns the error of such a request.
    pub(crate) fn not_read(&self, reading: Reading, mut error: EngineError) -> LockError {
        if error.kind == EngineErrorKind::Indeterminate && now() >= reading.until {
            error.source = Arc::new(TooMuch(reading.each + Reading::LONGEST));
        }
        self.server_unavailable(error)
    }

    pub(crate) fn shutting_down(&self, name: &str) -> LockError {
        LockError::ShuttingDown {
            key: Some(self.key_of(name).into()),
        }
    }

    /// Retries an idempotent request, each try with the command timeout. Returns the reply, and `true` if an
    /// earlier try may have been executed.
    pub(crate) async fn retry<'a, T>(
        &self,
        effort: Effort,
        request: impl Fn(Instant) -> EngineFuture<'a, T>,
    ) -> Result<(T, bool), EngineError> {
        let (mut deadline, mut ttl) = match effort {
            Effort::InCall { deadline } => (deadline, None),
            Effort::InBackground { deadline, ttl } => (deadline, Some(ttl)),
        };
        let in_background = ttl.is_some();
        let mut retry = Retry::default();
        let mut may_have_run = false;
        loop {
            if self.is_closed()
                && let Some(ttl) = ttl.take()
            {
                deadline = deadline.min(deadline_in(ttl));
            }
            let error = match request(deadline_in(self.command_timeout).min(deadline)).await {
                Ok(reply) => return Ok((reply, may_have_run)),
                Err(error) => error,
            };
            may_have_run |= error.kind == EngineErrorKind::Indeterminate;
            let next = now() + retry.pause_after(&error);
            if next >= deadline || !(in_background || error.is_retryable()) {
                return Err(error);
            }
            self.io.sleep_until(next).await;
        }
    }
}

/// Returns why the engine was not opened, if that is no outage.
fn refusal(error: &EngineError) -> Option<LockError> {
    error.source.downcast_ref().cloned()
}
