//! What people see and do from outside, on a real server.

mod asks;
mod names;
mod reports;
mod rights;
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
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

const LONG: Duration = Duration::from_secs(20);

fn soon() -> Instant {
    deadline_in(LONG)
}

/// An engine of a process of its own.
struct Peer {
    engine: Arc<dyn Engine>,
    process: ProcessId,
    asked: mpsc::UnboundedReceiver<Arc<str>>,
    may_be_free: mpsc::UnboundedReceiver<Token>,
}

impl Peer {
    async fn connect(url: &str) -> Peer {
        Peer::with(Config::new(url)).await
    }

    async fn with(config: Config) -> Peer {
        let (asks, asked) = mpsc::unbounded_channel();
        let (frees, may_be_free) = mpsc::unbounded_channel();
        let handler = move |event| {
            // The test may have ended.
            match event {
                EngineEvent::Asked(text) => drop(asks.send(text)),
                EngineEvent::MayBeFree(token) => drop(frees.send(token)),
                _ => {}
            }
        };
        let (io, clock) = (IoThread::start().unwrap(), Clock::System);
        let config = config.connect_timeout(LONG).command_timeout(LONG / 8);
        let (engine, _) = config
            .open(io, clock, ProcessId::random(), Arc::new(handler))
            .await
            .unwrap();
        Peer {
            engine,
            process: ProcessId::random(),
            asked,
            may_be_free,
        }
    }

    fn claim(&self, key: &str, limit: Limit) -> Claim {
        Claim {
            name: format!("lock:{key}").into(),
            token: Token::draw(self.process).with_limit(limit),
            ttl: Duration::from_secs(30),
            replicas: 0,
        }
    }

    /// Returns `true` if the claim holds the lock, or `false` if it waits.
    async fn enter(&self, claim: &Claim) -> bool {
        let reply = self.engine.enqueue(claim, None, soon()).await.unwrap();
        match reply {
            EnqueueReply::Granted(_) => true,
            EnqueueReply::Queued(_) => false,
            other => panic!("{other:?}"),
        }
    }

    async fn is_stale(&self, claim: &Claim) -> bool {
        let reply = self.engine.enqueue(claim, None, soon()).await.unwrap();
        matches!(reply, EnqueueReply::Stale)
    }

    async fn fencing_token(&self, claim: &Claim) -> Option<u64> {
        self.engine.fencing_token(claim, soon()).await.unwrap()
    }

    /// Enters again once the claim is notified, and returns `true` if it holds the lock then.
    async fn enter_when_notified(&mut self, claim: &Claim) -> bool {
        let notified = timeout(LONG, self.may_be_free.recv()).await;
        assert_eq!(notified.unwrap(), Some(claim.token));
        self.enter(claim).await
    }

    async fn asked(&mut self) -> Arc<str> {
        let asked = timeout(LONG, self.asked.recv()).await;
        asked.expect("it is asked").unwrap()
    }

    async fn until_it_listens(&mut self, asker: &Peer) {
        self.engine.listen();
        let mut number = 0;
        loop {
            let text = format!("{} listens {number}", self.process);
            asker.engine.ask(&text, soon()).await.unwrap();
            let asked = timeout(Duration::from_millis(200), self.asked.recv());
            if asked.await.is_ok() {
                break;
            }
            number += 1;
        }
        while let Ok(asked) = timeout(Duration::from_millis(300), self.asked.recv()).await {
            assert!(asked.is_some_and(|text| text.contains("listens")));
        }
    }
}

fn text(token: Token) -> String {
    token.encode(&mut [0; 37]).to_owned()
}
