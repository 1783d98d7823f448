//! The state shared by the clones of a manager, and the handler of its engine's events.

use crate::config::Config;
use crate::engine::event::{EngineEvent, EventHandler};
use crate::engine::opening::Opened;
use crate::engine::request::Claim;
use crate::lock::claim_events::ClaimEvents;
use crate::lock::context::Context;
use crate::lock::handoff::{HoldGuard, Table, give_back};
use crate::lock::local_queue::LocalQueues;
use crate::lock::on_asked::on_asked;
use crate::lock::on_recalled::on_recalled;
use crate::lock::release::Releaser;
use crate::lock::shared::Shared;
use crate::lock::survey::report::Reported;
use crate::lock::watchdog::Watchdog;
use crate::process::ProcessId;
use crate::stats::Stats;
use crate::util::clock::Clock;
use crate::util::io_thread::IoThread;
use crate::util::sync::Mutex;
use crate::util::thread_end;
use once_cell::sync::OnceCell;
use std::ops::Deref;
use std::sync::{Arc, Weak};

/// A manager as its callers have it. When none has it any more, it keeps no lock.
pub(crate) struct Manager(Arc<ManagerInner>);

/// What a manager consists of. Waits in server queues have it, too, and may outlive the callers.
pub(crate) struct ManagerInner {
    pub(crate) context: Arc<Context>,
    pub(crate) shared: Arc<Shared<Table>>,
    pub(crate) queues: Arc<LocalQueues<HoldGuard>>,
    pub(crate) claims: Arc<ClaimEvents>,
}

/// A slot for the manager, which is created after its engine, so that the engine's events reach it.
#[derive(Clone, Default)]
pub(crate) struct InnerSlot(Arc<Slot>);

#[derive(Default)]
struct Slot {
    inner: OnceCell<(Weak<ManagerInner>, Weak<Shared<Table>>)>,
    /// The events until it is filled: a server of several may be down from the start.
    early: Mutex<Vec<EngineEvent>>,
}

impl InnerSlot {
    pub(crate) fn event_handler(&self) -> EventHandler {
        let slot = self.0.clone();
        Arc::new(move |event| {
            if let Some(event) = slot.until_filled(event) {
                slot.deliver(event);
            }
        })
    }

    pub(crate) fn fill(&self, inner: &Arc<ManagerInner>) {
        loop {
            let mut early = self.0.early.lock();
            if early.is_empty() {
                let parts = (Arc::downgrade(inner), Arc::downgrade(&inner.shared));
                let _ = self.0.inner.set(parts);
                return;
            }
            let events = std::mem::take(&mut *early);
            drop(early);
            // Those that come meanwhile follow.
            events.into_iter().for_each(|event| inner.on_event(event));
        }
    }
}

impl Slot {
    fn deliver(&self, event: EngineEvent) {
        let Some((inner, shared)) = self.inner.get() else {
            return;
        };
        match (inner.upgrade(), event) {
            (Some(inner), event) => inner.on_event(event),
            // A guard may outlive its manager.
            (None, EngineEvent::Asked(text)) => {
                if let Some(shared) = shared.upgrade() {
                    on_asked(&shared, &text);
                }
            }
            (None, _) => {}
        }
    }

    /// Keeps the event if the slot is not filled yet, and returns it otherwise.
    fn until_filled(&self, event: EngineEvent) -> Option<EngineEvent> {
        if self.inner.get().is_some() {
            return Some(event);
        }
        let mut early = self.early.lock();
        // It may have been filled meanwhile.
        if self.inner.get().is_some() {
            return Some(event);
        }
        early.push(event);
        None
    }
}

impl Manager {
    pub(crate) fn start(
        io: IoThread,
        clock: Clock,
        process: ProcessId,
        opened: Opened,
        config: &Config,
    ) -> Arc<Manager> {
        let context = Arc::new(Context::new(io, clock, process, opened, config));
        let queues = Arc::new(LocalQueues::new(config.max_kept));
        thread_end::watch_use(Arc::<LocalQueues<_>>::downgrade(&queues));
        let claims = Arc::<ClaimEvents>::default();
        let releaser = Arc::new(Releaser::new(context.clone(), claims.clone()));
        let shared = Arc::new(Shared {
            context: context.clone(),
            supervisor: releaser.clone(),
            releaser,
            watchdog: Watchdog::start(context.clone()),
            table: queues.clone(),
        });
        let reported = Reported {
            shared: Arc::downgrade(&shared),
            queues: queues.clone(),
            claims: claims.clone(),
        };
        reported.clone().start_ages();
        reported.start();
        Arc::new(Manager(Arc::new(ManagerInner {
            context,
            shared,
            queues,
            claims,
        })))
    }
}

impl Deref for Manager {
    type Target = Arc<ManagerInner>;

    fn deref(&self) -> &Arc<ManagerInner> {
        &self.0
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        // No caller can resume them. This thread waits at its end for what it begins.
        self.stop_keeping();
    }
}

impl ManagerInner {
    /// Releases the locks that this process keeps, and keeps none any more.
    pub(crate) fn stop_keeping(&self) {
        give_back(&self.queues, self.queues.stop_keeping());
    }

    pub(crate) fn stats(&self) -> Stats {
        self.context.telemetry.stats(self.queues.kept())
    }

    fn on_event(&self, event: EngineEvent) {
        let telemetry = &self.context.telemetry;
        match &event {
            EngineEvent::Recalled(recall) => {
                return on_recalled(&self.context, &self.queues, recall);
            }
            EngineEvent::Asked(text) => return on_asked(&self.shared, text),
            EngineEvent::Resubscribed => {
                // Recalls may have been missed, too.
                give_back(&self.queues, self.queues.recall_all());
                return self.queues.wake_all();
            }
            EngineEvent::MasterChanged => return self.shared.renew_all(),
            EngineEvent::ConnectionBroken(server, error) => {
                // What comes instead of that server may know nothing of the kept locks.
                give_back(&self.queues, self.queues.recall_all());
                return telemetry.connection_broken(server.clone(), error);
            }
            EngineEvent::ConnectionMended(server) => return telemetry.connection_mended(server),
            _ => {}
        }
        if let Some(unclaimed) = self.claims.dispatch(event) {
            let claim = Claim {
                name: unclaimed.name,
                token: unclaimed.token,
                ttl: unclaimed.lease,
                replicas: 0,
            };
            self.shared.releaser.cancel_in_background(claim, false);
        }
    }
}
