//! A lock server with delays, and a log of its grants.

use crate::api::manager::LockManager;
use crate::config::Config;
use crate::engine::event::{EngineEvent, EventHandler};
use crate::engine::memory::MemoryEngine;
use crate::engine::memory::store::Store;
use crate::engine::opening::Opened;
use crate::lock::inner::{InnerSlot, Manager};
use crate::options::Report;
use crate::process::ProcessId;
use crate::tests::shuttle::delayed_engine::DelayedEngine;
use crate::tests::shuttle::explore::coin_flip;
use crate::tests::shuttle::grant_log::{GrantLog, TTL};
use crate::tests::shuttle::process::Process;
use crate::util::inbox::Inbox;
use crate::util::io_thread::IoThread;
use crate::util::shuttle::virtual_time;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use tokio::sync::Notify;

pub(super) struct Server {
    store: Arc<Store>,
    log: Arc<GrantLog>,
    messages: Arc<Messages>,
}

#[derive(Default)]
struct Messages {
    sent: AtomicUsize,
    delivered: AtomicUsize,
    arrived: Notify,
}

impl Server {
    pub(super) fn start() -> Server {
        Server {
            store: Store::with_clock(virtual_time::clock()),
            log: Arc::default(),
            messages: Arc::default(),
        }
    }

    pub(super) fn process(&self) -> Arc<Process> {
        self.process_by(DelayedEngine::new, |news| news)
    }

    /// Starts a process whose renewals may get no reply.
    pub(super) fn process_that_loses_replies(&self) -> Arc<Process> {
        self.process_by(DelayedEngine::losing_replies, |news| news)
    }

    /// Starts a process that misses recalls, since its subscription ends, and is made anew.
    pub(super) fn process_that_misses_recalls(&self) -> Arc<Process> {
        self.process_by(DelayedEngine::new, |news| match news {
            EngineEvent::Recalled(_) if coin_flip() => EngineEvent::Resubscribed,
            news => news,
        })
    }

    fn process_by(
        &self,
        engine: impl FnOnce(MemoryEngine, Arc<GrantLog>) -> DelayedEngine,
        received: fn(EngineEvent) -> EngineEvent,
    ) -> Arc<Process> {
        let slot = InnerSlot::default();
        let handler = self.post(slot.event_handler(), received);
        let memory = MemoryEngine::new(self.store.clone(), handler);
        let engine = engine(memory, self.log.clone());
        let config = Config::new("memory://").prefix("").ttl(TTL);
        // No one looks at these processes.
        let config = config.report(Report::Off);
        let io = IoThread::start().unwrap();
        let opened: Opened = (Arc::new(engine), "distant".into());
        let (clock, process) = (virtual_time::clock(), ProcessId::random());
        let inner = Manager::start(io, clock, process, opened, &config);
        slot.fill(&inner);
        Arc::new(Process::new(LockManager { inner }, self.log.clone()))
    }

    /// Returns an event handler that delays the events for another one, which receives others in their place.
    fn post(
        &self,
        handler: EventHandler,
        received: fn(EngineEvent) -> EngineEvent,
    ) -> EventHandler {
        let letters = Arc::new(Inbox::new());
        let (sent, log) = (letters.clone(), self.log.clone());
        let (messages, counts) = (self.messages.clone(), self.messages.clone());
        crate::util::shuttle::execution::spawn(async move {
            loop {
                handler(received(letters.recv().await));
                messages.delivered.fetch_add(1, SeqCst);
                messages.arrived.notify_waiters();
            }
        });
        Arc::new(move |news| {
            if let EngineEvent::Granted(grant) = &news {
                log.note(grant.token, |grant| grant.granted = true);
            }
            counts.sent.fetch_add(1, SeqCst);
            sent.push(news);
        })
    }

    /// Ends processes whose callers have ended. A message that arrives late lets a process cancel a claim
    /// once more, so all messages arrive first.
    pub(super) async fn end<const N: usize>(&self, processes: [Arc<Process>; N]) {
        let messages = &self.messages;
        loop {
            let arrived = messages.arrived.notified();
            let before = messages.delivered.load(SeqCst);
            for process in &processes {
                process.locks.shutdown().await;
            }
            let delivered = messages.delivered.load(SeqCst);
            if delivered < messages.sent.load(SeqCst) {
                arrived.await;
            } else if delivered == before {
                break;
            }
        }
        for process in processes {
            process.end().await;
        }
    }

    pub(super) fn is_free(&self) -> bool {
        self.store.is_idle()
    }

    /// Checks that the server is empty and that each grant was returned once.
    pub(super) fn assert_all_released(&self) {
        self.assert_empty();
        for grant in self.log.grants.lock().unwrap().values() {
            let once = !grant.granted || grant.releases + grant.left == 1;
            assert!(once, "not returned exactly once: {grant:?}");
        }
    }

    /// Checks that the server is empty and that no grant was returned twice. Leases may have expired.
    pub(super) fn assert_empty(&self) {
        assert!(self.is_free(), "something is left on the server");
        for grant in self.log.grants.lock().unwrap().values() {
            assert!(!grant.reserved, "a place is left: {grant:?}");
            assert!(
                grant.releases + grant.left <= 1,
                "released twice: {grant:?}"
            );
        }
    }

    /// Checks that no release was requested without a grant.
    pub(super) fn was_asked_for_no_more(&self) {
        for grant in self.log.grants.lock().unwrap().values() {
            let in_vain = !grant.granted && grant.releases > 0;
            assert!(!in_vain, "released, and never granted");
        }
    }
}
