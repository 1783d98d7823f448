//! What people see of the locks and do to them, on real servers.

mod asks;
mod names;
mod quorum;
mod reports;
mod take;

use crate::config::Config;
use crate::engine::event::EngineEvent;
use crate::engine::request::{Claim, EnqueueReply};
use crate::engine::token::Token;
use crate::engine::traits::Engine;
use crate::limit::Limit;
use crate::process::ProcessId;
use crate::util::clock::Clock;
use crate::util::io_thread::IoThread;
use crate::util::time::deadline_in;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::Instant;

const TTL: Duration = Duration::from_secs(30);

/// A process that uses the server, and what its engine reports.
struct Process {
    engine: Arc<dyn Engine>,
    events: UnboundedReceiver<EngineEvent>,
}

impl Process {
    async fn connect(config: impl Into<Config>) -> Process {
        let (sender, events) = unbounded_channel();
        let handler = Arc::new(move |event| drop(sender.send(event)));
        let (config, io) = (config.into(), IoThread::start().unwrap());
        let opened = config
            .open(io, Clock::System, ProcessId::random(), handler)
            .await;
        Process {
            engine: opened.unwrap().0,
            events,
        }
    }

    /// Returns what `read` makes of the first event of which it makes something.
    async fn next<T>(&mut self, read: impl Fn(EngineEvent) -> Option<T>) -> T {
        loop {
            let event = tokio::time::timeout(TTL, self.events.recv()).await;
            if let Some(found) = read(event.unwrap().unwrap()) {
                return found;
            }
        }
    }

    async fn granted(&mut self) -> Token {
        let read = |event| match event {
            EngineEvent::Granted(grant) => Some(grant.token),
            _ => None,
        };
        self.next(read).await
    }

    async fn enqueue(&self, claim: &Claim) -> EnqueueReply {
        self.engine.enqueue(claim, None, soon()).await.unwrap()
    }

    /// Acquires a free lock, or one that others share.
    async fn hold(&self, claim: &Claim) {
        let reply = self.enqueue(claim).await;
        assert!(matches!(reply, EnqueueReply::Granted(_)), "{reply:?}");
    }

    async fn wait(&self, claim: &Claim) {
        let reply = self.enqueue(claim).await;
        assert!(matches!(reply, EnqueueReply::Queued(_)), "{reply:?}");
    }

    async fn renew(&self, claim: &Claim) -> bool {
        let renewed = self.engine.renew(std::slice::from_ref(claim), soon());
        renewed.await.unwrap().pop().unwrap().unwrap()
    }

    async fn release(&self, claim: &Claim) -> bool {
        self.engine.release(claim, soon()).await.unwrap()
    }

    async fn number(&self, claim: &Claim) -> Option<u64> {
        self.engine.fencing_token(claim, soon()).await.unwrap()
    }
}

fn soon() -> Instant {
    deadline_in(Duration::from_secs(10))
}

fn claim(key: &str) -> Claim {
    Claim {
        name: format!("lock:{key}").into(),
        token: Token::random(),
        ttl: TTL,
        replicas: 0,
    }
}

fn reader(key: &str) -> Claim {
    let claim = claim(key);
    Claim {
        token: claim.token.with_limit(Limit::UNLIMITED),
        ..claim
    }
}

fn text(token: Token) -> String {
    token.encode(&mut [0; 37]).to_owned()
}
