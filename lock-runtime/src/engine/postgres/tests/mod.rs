//! Operations on a real server, which no public call makes as they are made here.

mod asks;
mod names;
mod pooler;
mod recalls;
mod reports;
mod rights;
mod take;

use crate::config::Config;
use crate::engine::event::{EngineEvent, Grant};
use crate::engine::operations::Taken;
use crate::engine::request::{Claim, EnqueueReply};
use crate::engine::token::Token;
use crate::engine::traits::Engine;
use crate::limit::Limit;
use crate::process::ProcessId;
use crate::util::clock::Clock;
use crate::util::io_thread::IoThread;
use lock_test_support::postgres::Postgres;
use lock_test_support::time::{millis, within};
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

const TTL: Duration = millis(30_000);

/// The engine of one process, and the events that it reports.
struct Process {
    engine: Arc<dyn Engine>,
    id: ProcessId,
    events: mpsc::UnboundedReceiver<EngineEvent>,
}

impl Deref for Process {
    type Target = Arc<dyn Engine>;

    fn deref(&self) -> &Self::Target {
        &self.engine
    }
}

impl Process {
    async fn of(server: &Postgres) -> Process {
        Process::connect(Config::new(server.url())).await
    }

    async fn connect(config: Config) -> Process {
        let (sender, events) = mpsc::unbounded_channel();
        let handler = Arc::new(move |event| drop(sender.send(event)));
        let config = config.connect_timeout(millis(20_000));
        let (io, id) = (IoThread::start().unwrap(), ProcessId::random());
        let (engine, _) = config.open(io, Clock::System, id, handler).await.unwrap();
        Process { engine, id, events }
    }

    fn claim(&self, name: &str, limit: Limit) -> Claim {
        Claim {
            name: name.into(),
            token: Token::draw(self.id).with_limit(limit),
            ttl: TTL,
            replicas: 0,
        }
    }

    /// Asks for the lock.
    async fn ask_for(&self, claim: &Claim) -> EnqueueReply {
        self.enqueue(claim, None, soon()).await.unwrap()
    }

    /// Acquires the lock, which is free.
    async fn acquire(&self, name: &str, limit: Limit) -> Claim {
        let claim = self.claim(name, limit);
        let reply = self.ask_for(&claim).await;
        assert!(matches!(reply, EnqueueReply::Granted(_)), "{reply:?}");
        claim
    }

    /// Enters the queue of a lock that is not free.
    async fn wait(&self, name: &str) -> Claim {
        let claim = self.claim(name, Limit::EXCLUSIVE);
        let reply = self.ask_for(&claim).await;
        assert!(matches!(reply, EnqueueReply::Queued(_)), "{reply:?}");
        claim
    }

    async fn take_token(&self, name: &str, token: &str) -> Taken {
        self.take(name, token, 0, soon()).await.unwrap()
    }

    async fn take_from(&self, claim: &Claim) -> Taken {
        self.take_token(&claim.name, &text(claim)).await
    }

    /// Returns the next event that is of interest.
    async fn next<T>(&mut self, find: impl Fn(EngineEvent) -> Option<T>) -> T {
        let next = async {
            loop {
                let event = self.events.recv().await.expect("the engine lives");
                if let Some(found) = find(event) {
                    return found;
                }
            }
        };
        within(TTL, next).await
    }

    async fn next_grant(&mut self) -> Grant {
        self.next(|event| match event {
            EngineEvent::Granted(grant) => Some(grant),
            _ => None,
        })
        .await
    }

    async fn next_ask(&mut self) -> Arc<str> {
        self.next(|event| match event {
            EngineEvent::Asked(text) => Some(text),
            _ => None,
        })
        .await
    }

    /// Waits until messages arrive, or no longer do.
    async fn next_resubscription(&mut self) {
        self.next(|event| matches!(event, EngineEvent::Resubscribed).then_some(()))
            .await
    }

    async fn holders(&self, name: &str) -> Vec<String> {
        let view = self.view(name, 9, soon()).await.unwrap();
        view.holders.into_iter().map(|it| it.token.into()).collect()
    }
}

fn text(claim: &Claim) -> String {
    claim.token.encode(&mut [0; 37]).to_owned()
}

fn soon() -> Instant {
    Instant::now() + millis(10_000)
}
