//! Opens the engine of a manager: at once, or in the background if its servers can't be reached yet.

use crate::config::Config;
use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::late::LateEngine;
use crate::engine::opening::Opened;
use crate::error::LockError;
use crate::lock::context::Context;
use crate::lock::inner::{InnerSlot, ManagerInner};
use crate::process::ProcessId;
use crate::trace;
use crate::util::backoff::Backoff;
use crate::util::clock::Clock;
use crate::util::io_thread::IoThread;
use crate::util::time::deadline_in;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Opens the engine, whose events go to the slot, and inspects its servers.
pub(crate) async fn open(
    config: &Config,
    io: IoThread,
    clock: Clock,
    process: ProcessId,
    slot: &InnerSlot,
) -> Result<Opened, LockError> {
    let (engine, server) = config
        .open(io, clock, process, slot.event_handler())
        .await?;
    let (ttl, replicas) = (config.ttl, config.replicas);
    if config.strict {
        let warnings = engine.inspect(ttl, replicas).await.warnings;
        if !warnings.is_empty() {
            return Err(LockError::UnsafeServer {
                warnings: warnings.into(),
            });
        }
    } else if trace::warnings_enabled() {
        let engine = engine.clone();
        io.spawn_detached(async move {
            let found = engine.inspect(ttl, replicas).await;
            found.warnings.iter().for_each(trace::unsafe_server);
        });
    }
    Ok((engine, server))
}

/// An engine that is opened later, since its servers can't be reached now.
pub(crate) struct Late {
    pub(crate) engine: Arc<LateEngine>,
    pub(crate) server: Arc<str>,
    error: LockError,
}

impl Late {
    /// Returns the engine to begin with after that error, or the error if it is no outage, or the manager
    /// does not begin during one.
    pub(crate) fn after(
        error: LockError,
        config: &Config,
        io: IoThread,
    ) -> Result<Late, LockError> {
        match &error {
            LockError::Unavailable { server, .. } if config.start_disconnected => Ok(Late {
                engine: Arc::new(LateEngine::new(io, server.clone(), error.clone())),
                server: server.clone(),
                error,
            }),
            _ => Err(error),
        }
    }

    /// Opens the engine in the background.
    pub(crate) fn open_later(self, inner: &Arc<ManagerInner>, config: Config) {
        let io = inner.context.io;
        let outage = Outage::begin(inner.context.clone(), self.error);
        io.spawn_detached(open_late(
            self.engine,
            outage,
            Arc::downgrade(inner),
            config,
        ));
    }
}

/// Tries until the engine is open, or the manager has ended.
async fn open_late(
    engine: Arc<LateEngine>,
    mut outage: Outage,
    inner: Weak<ManagerInner>,
    config: Config,
) {
    let context = outage.context.clone();
    let mut unreachable = Backoff::new(Duration::from_millis(50), Duration::from_millis(400));
    // A refusal is seldom taken back within a second, and each try may connect to all servers.
    let mut refused = Backoff::new(Duration::from_secs(1), Duration::from_secs(5));
    loop {
        let pause = match outage.error.is_unavailable() {
            true => unreachable.pause(),
            false => refused.pause(),
        };
        context.io.sleep_until(deadline_in(pause)).await;
        if inner.strong_count() == 0 || context.is_closed() {
            return;
        }
        // What a failed try reports of single connections does not matter.
        let slot = InnerSlot::default();
        let clock = context.clock.clone();
        match open(&config, context.io, clock, context.process, &slot).await {
            Ok((opened, _)) => {
                if let Some(inner) = inner.upgrade()
                    && !context.is_closed()
                {
                    engine.open(opened);
                    slot.fill(&inner);
                    trace::connected(context.server());
                }
                return;
            }
            Err(error) => {
                engine.failed(error.clone());
                outage.goes_on(error);
            }
        }
    }
}

/// What is reported while there is no connection yet. Dropping it ends the outage.
struct Outage {
    context: Arc<Context>,
    error: LockError,
}

impl Outage {
    fn begin(context: Arc<Context>, error: LockError) -> Outage {
        if let LockError::Unavailable { source, .. } = &error {
            let failure = EngineError::new(EngineErrorKind::NotConnected, source.clone());
            let server = context.server();
            trace::not_connected(server, &failure);
            context
                .telemetry
                .connection_broken(server.clone(), &failure);
        }
        Outage { context, error }
    }

    /// Records why another try was in vain.
    fn goes_on(&mut self, error: LockError) {
        if !error.is_unavailable() && error.to_string() != self.error.to_string() {
            trace::refused(self.context.server(), &error);
        }
        self.error = error;
    }
}

impl Drop for Outage {
    fn drop(&mut self) {
        let Outage { context, .. } = self;
        context.telemetry.connection_mended(context.server());
    }
}
