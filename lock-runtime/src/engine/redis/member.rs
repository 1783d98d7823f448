//! A quorum member that is a Redis deployment, and may not be reachable yet.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::event::EventHandler;
use crate::engine::inspection::Inspection;
use crate::engine::member::{Member, QueueObservation, Vote, VoteQueue};
use crate::engine::redis::RedisEngine;
use crate::engine::redis::topology::Topology;
use crate::engine::request::{Claim, EngineFuture};
use crate::engine::timeouts::Timeouts;
use crate::engine::traits::Engine;
use crate::trace;
use crate::util::backoff::Backoff;
use crate::util::io_thread::IoThread;
use crate::util::time::now;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

pub(crate) struct RedisMember {
    io: IoThread,
    address: Arc<str>,
    state: Arc<watch::Sender<State>>,
}

enum State {
    Connecting,
    /// The last attempt to connect failed with this error; more attempts follow.
    Down(EngineError),
    /// The engine keeps its own connections alive.
    Up(Arc<RedisEngine>),
}

impl RedisMember {
    /// Starts connecting, and continues until that succeeds.
    pub(crate) fn open(
        io: IoThread,
        topology: Topology,
        timeouts: Timeouts,
        prefix: &str,
        handler: EventHandler,
    ) -> RedisMember {
        let state = Arc::new(watch::Sender::new(State::Connecting));
        let address = topology.to_string().into();
        let (prefix, weak) = (prefix.to_owned(), Arc::downgrade(&state));
        let server = topology.clone();
        io.spawn(async move {
            let connect = || {
                let (topology, timeouts) = (topology.clone(), timeouts.clone());
                RedisEngine::connect(io, topology, timeouts, &prefix, handler.clone())
            };
            connect_loop(weak, &server, connect).await;
        });
        RedisMember { io, address, state }
    }

    async fn engine(&self, deadline: Instant) -> Result<Arc<RedisEngine>, EngineError> {
        if let State::Up(engine) = &*self.state.borrow() {
            return Ok(engine.clone());
        }
        let mut state = self.state.subscribe();
        let settled = state.wait_for(|state| !matches!(state, State::Connecting));
        match self.io.timeout_at(deadline, settled).await {
            Ok(Ok(state)) => match &*state {
                State::Up(engine) => Ok(engine.clone()),
                State::Down(error) => Err(error.clone()),
                State::Connecting => Err(connecting()),
            },
            _ => Err(connecting()),
        }
    }
}

fn connecting() -> EngineError {
    EngineError::new(EngineErrorKind::NotConnected, "connecting to the server")
}

async fn connect_loop<F>(
    state: Weak<watch::Sender<State>>,
    server: &Topology,
    connect: impl Fn() -> F,
) where
    F: Future<Output = Result<RedisEngine, EngineError>>,
{
    let mut backoff = Backoff::new(Duration::from_millis(10), Duration::from_millis(400));
    let mut log = trace::Connection::default();
    loop {
        let connected = connect().await;
        let Some(state) = state.upgrade() else {
            return;
        };
        match connected {
            Ok(engine) => {
                log.made(server, "requests");
                state.send_replace(State::Up(Arc::new(engine)));
                return;
            }
            Err(error) => {
                log.failed(server, "requests", &error);
                state.send_replace(State::Down(error))
            }
        };
        drop(state);
        tokio::time::sleep(backoff.pause()).await;
    }
}

impl Member for RedisMember {
    fn address(&self) -> &str {
        &self.address
    }

    fn inspect(
        &self,
        ttl: Duration,
        replicas: u32,
    ) -> Pin<Box<dyn Future<Output = Inspection> + Send + '_>> {
        Box::pin(async move {
            match self.engine(now()).await {
                Ok(engine) => engine.inspect(ttl, replicas).await,
                Err(error) => {
                    let mut found = Inspection::default();
                    found.add_unreachable(&self.address, &error);
                    found
                }
            }
        })
    }

    fn connected(&self, deadline: Instant) -> EngineFuture<'_, ()> {
        Box::pin(async move { self.engine(deadline).await.map(drop) })
    }

    fn slot(&self, name: &str) -> u16 {
        match &*self.state.borrow() {
            State::Up(engine) => engine.shard_of(name).slot,
            _ => 0,
        }
    }

    fn vote<'a>(
        &'a self,
        claim: &'a Claim,
        queue: VoteQueue,
        deadline: Instant,
    ) -> EngineFuture<'a, Vote> {
        Box::pin(async move {
            self.engine(deadline)
                .await?
                .commands
                .vote(claim, queue, deadline)
                .await
        })
    }

    fn observe<'a>(
        &'a self,
        entry: &'a Claim,
        deadline: Instant,
    ) -> EngineFuture<'a, QueueObservation> {
        Box::pin(async move {
            self.engine(deadline)
                .await?
                .commands
                .observe(entry, deadline)
                .await
        })
    }

    fn leave_queue<'a>(&'a self, entry: &'a Claim, deadline: Instant) -> EngineFuture<'a, ()> {
        Box::pin(async move {
            self.engine(deadline)
                .await?
                .commands
                .leave_queue(entry, deadline)
                .await
        })
    }

    fn release<'a>(
        &'a self,
        claim: &'a Claim,
        held: bool,
        deadline: Instant,
    ) -> EngineFuture<'a, bool> {
        Box::pin(async move {
            self.engine(deadline)
                .await?
                .commands
                .release_at_member(claim, held, deadline)
                .await
        })
    }

    fn renew<'a>(
        &'a self,
        claims: &'a [Claim],
        deadline: Instant,
    ) -> EngineFuture<'a, Vec<Result<bool, EngineError>>> {
        Box::pin(
            async move { Engine::renew(&*self.engine(deadline).await?, claims, deadline).await },
        )
    }

    fn fencing_token<'a>(
        &'a self,
        claim: &'a Claim,
        deadline: Instant,
    ) -> EngineFuture<'a, Option<u64>> {
        Box::pin(async move {
            let engine = self.engine(deadline).await?;
            Engine::fencing_token(&*engine, claim, deadline).await
        })
    }

    fn raise_fencing_token<'a>(
        &'a self,
        claim: &'a Claim,
        token: u64,
        deadline: Instant,
    ) -> EngineFuture<'a, bool> {
        Box::pin(async move {
            let engine = self.engine(deadline).await?;
            engine
                .commands
                .raise_fencing_token(claim, token, deadline)
                .await
        })
    }
}
