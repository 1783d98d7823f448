//! A process on a real etcd, as its engine.

use crate::config::Config;
use crate::engine::background_release::{ReleaseSupervisor, Unused};
use crate::engine::event::EngineEvent;
use crate::engine::operations::StoredReport;
use crate::engine::request::{Attempt, Claim, EnqueueReply};
use crate::engine::token::Token;
use crate::engine::traits::Engine;
use crate::limit::Limit;
use crate::process::ProcessId;
use crate::util::clock::Clock;
use crate::util::io_thread::IoThread;
use crate::util::time::{deadline_in, timeout_at};
use lock_test_support::etcd::Etcd;
use lock_test_support::proxy::Proxy;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

pub(super) const TTL: Duration = Duration::from_secs(30);

/// A process that uses locks, or looks at them.
pub(super) struct Process {
    pub(super) id: ProcessId,
    pub(super) engine: Arc<dyn Engine>,
    pub(super) events: mpsc::UnboundedReceiver<EngineEvent>,
}

pub(super) fn soon() -> Instant {
    deadline_in(Duration::from_secs(20))
}

impl Process {
    pub(super) async fn connect(config: impl Into<Config>) -> Process {
        let (sender, events) = mpsc::unbounded_channel();
        let handler = Arc::new(move |event| drop(sender.send(event)));
        let io = IoThread::start().unwrap();
        let (engine, _) = config
            .into()
            .open(io, Clock::default(), ProcessId::random(), handler)
            .await
            .unwrap();
        Process {
            id: ProcessId::random(),
            engine,
            events,
        }
    }

    pub(super) async fn acquire(&self, name: &str, limit: Limit) -> Option<Claim> {
        let attempt = Attempt {
            is_recallable: false,
            process: self.id,
            name: name.into(),
            ttl: TTL,
            replicas: 0,
            limit,
            waits: false,
            others: None,
        };
        let supervisor: Arc<dyn ReleaseSupervisor> = Arc::new(Unused);
        let acquired = self.engine.acquire(&attempt, &supervisor, soon()).await;
        Some(attempt.claim(acquired.unwrap()?.token))
    }

    pub(super) async fn hold(&self, name: &str) -> Claim {
        self.acquire(name, Limit::EXCLUSIVE)
            .await
            .expect("it is free")
    }

    /// Enters the line of a lock that is held.
    pub(super) async fn wait(&self, name: &str) -> Claim {
        let claim = Claim {
            name: name.into(),
            token: Token::draw(self.id),
            ttl: TTL,
            replicas: 0,
        };
        assert!(matches!(
            self.enqueue(&claim).await,
            EnqueueReply::Queued(_)
        ));
        claim
    }

    pub(super) async fn enqueue(&self, claim: &Claim) -> EnqueueReply {
        self.engine.enqueue(claim, None, soon()).await.unwrap()
    }

    /// Waits until the watch reports that the lock may be free, and that it is.
    pub(super) async fn until_granted(&mut self, claim: &Claim) {
        loop {
            let event = self.next_event().await;
            if matches!(event, EngineEvent::MayBeFree(token) if token == claim.token) {
                break;
            }
        }
        let reply = self.enqueue(claim).await;
        assert!(matches!(reply, EnqueueReply::AlreadyHeld(_)), "{reply:?}");
    }

    pub(super) async fn next_event(&mut self) -> EngineEvent {
        let event = timeout_at(soon(), self.events.recv()).await;
        event.expect("an event comes").expect("the engine is there")
    }

    /// Returns what this process is asked next.
    pub(super) async fn asked(&mut self) -> Arc<str> {
        loop {
            if let EngineEvent::Asked(text) = self.next_event().await {
                return text;
            }
        }
    }

    /// Breaks the connection, and waits for the next one.
    pub(super) async fn connect_again(&mut self, path: &Proxy) {
        while self.events.try_recv().is_ok() {}
        path.cut();
        path.heal();
        while !matches!(self.next_event().await, EngineEvent::Resubscribed) {}
    }

    pub(super) async fn number(&self, claim: &Claim) -> Option<u64> {
        self.engine.fencing_token(claim, soon()).await.unwrap()
    }

    pub(super) async fn release(&self, claim: &Claim) -> bool {
        self.engine.release(claim, soon()).await.unwrap()
    }

    /// Returns the holders, and the waiters.
    pub(super) async fn view(&self, name: &str) -> [Vec<String>; 2] {
        let view = self.engine.view(name, 99, soon()).await.unwrap();
        let holders = view.holders.iter().map(|holder| holder.token.to_string());
        [
            holders.collect(),
            view.waiters.iter().map(|it| it.to_string()).collect(),
        ]
    }

    /// Returns whether the token held the lock, and the fencing token.
    pub(super) async fn take(&self, name: &str, token: &str) -> (bool, u64) {
        let taken = self.engine.take(name, token, 0, soon()).await.unwrap();
        assert!(!taken.pinned);
        (taken.held, taken.fencing_token)
    }

    pub(super) async fn names(&self, prefix: &str, most: usize) -> Vec<Arc<str>> {
        self.engine.names(prefix, most, soon()).await.unwrap()
    }

    pub(super) async fn report(&self, text: &str) {
        self.engine
            .report(self.id, text.into(), soon())
            .await
            .unwrap();
    }

    pub(super) async fn reports(&self, of: Option<&[ProcessId]>) -> Vec<StoredReport> {
        self.engine.reports(of, soon()).await.unwrap()
    }

    pub(super) async fn end(&self) {
        self.engine.drain().await.unwrap();
    }
}

pub(super) fn text(token: Token) -> String {
    token.encode(&mut [0; 37]).to_owned()
}

pub(super) async fn three(etcd: &Etcd) -> [Process; 3] {
    let connect = || Process::connect(etcd.url());
    [connect().await, connect().await, connect().await]
}
