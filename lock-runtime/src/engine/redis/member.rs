//! A quorum member that is a Redis deployment, and may not be reachable yet.

use crate::config::Config;
use crate::engine::common::pace::Pace;
use crate::engine::common::upkeep::{Connect, Kept, Upkeep};
use crate::engine::error::EngineError;
use crate::engine::event::EventHandler;
use crate::engine::inspection::Inspection;
use crate::engine::member::{Member, QueueObservation, Vote, VoteQueue};
use crate::engine::opening::Opening;
use crate::engine::operations::{Operations, Reading, StoredReport, Taken};
use crate::engine::redis::RedisEngine;
use crate::engine::redis::topology::Topology;
use crate::engine::request::{Claim, EngineFuture};
use crate::engine::timeouts::Timeouts;
use crate::engine::traits::Engine;
use crate::engine::view::View;
use crate::process::ProcessId;
use crate::util::clock::Clock;
use crate::util::io_thread::IoThread;
use crate::util::time::now;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::Instant;

pub(crate) struct RedisMember {
    address: Arc<str>,
    engine: Upkeep<RedisEngine>,
    /// `true` once the process listens: its engine may be connected only later.
    listens: Arc<AtomicBool>,
}

/// How the engine of a member is opened.
struct Connector {
    topology: Topology,
    config: Config,
    timeouts: Timeouts,
    io: IoThread,
    clock: Clock,
    process: ProcessId,
    handler: EventHandler,
    listens: Arc<AtomicBool>,
}

impl RedisMember {
    /// Starts connecting, and continues until that succeeds.
    pub(crate) fn open(topology: Topology, opening: Opening<'_>) -> RedisMember {
        let Opening {
            config,
            timeouts,
            io,
            clock,
            process,
            handler,
        } = opening;
        let of = (&topology as _, "requests");
        let pace = Pace::new(of, timeouts.connect, &timeouts, handler.clone());
        let address = topology.to_string().into();
        let listens = Arc::<AtomicBool>::default();
        let connector = Connector {
            topology,
            config: config.clone(),
            timeouts,
            io,
            clock,
            process,
            handler,
            listens: listens.clone(),
        };
        let engine = Upkeep::start(io, pace, connector);
        RedisMember {
            address,
            engine,
            listens,
        }
    }

    async fn engine(&self, deadline: Instant) -> Result<Arc<RedisEngine>, EngineError> {
        self.engine.connection_by(deadline, false).await
    }
}

/// The engine keeps its own connections up.
impl Kept for RedisEngine {}

impl Connect for Connector {
    type Connection = RedisEngine;

    async fn connect(&mut self, _: Duration) -> Result<Arc<RedisEngine>, EngineError> {
        let opening = Opening {
            config: &self.config,
            timeouts: self.timeouts.clone(),
            io: self.io,
            clock: self.clock.clone(),
            process: self.process,
            handler: self.handler.clone(),
        };
        let engine = RedisEngine::connect(self.topology.clone(), opening);
        engine.await.map(Arc::new)
    }

    fn connected(&mut self, engine: &Arc<RedisEngine>) {
        if self.listens.load(Ordering::SeqCst) {
            engine.locks.listen();
        }
    }
}

impl Operations for RedisMember {
    fn ping(&self, deadline: Instant) -> EngineFuture<'_, ()> {
        Box::pin(async move { self.engine(deadline).await?.locks.ping(deadline).await })
    }

    fn views<'a>(
        &'a self,
        names: &'a [Arc<str>],
        most: usize,
        deadline: Instant,
    ) -> EngineFuture<'a, Vec<View>> {
        Box::pin(async move {
            let engine = self.engine(deadline).await?;
            engine.locks.views(names, most, deadline).await
        })
    }

    fn has_index(&self) -> bool {
        false
    }

    fn names<'a>(
        &'a self,
        prefix: &'a str,
        most: usize,
        reading: Reading,
    ) -> EngineFuture<'a, Vec<Arc<str>>> {
        Box::pin(async move {
            let engine = self.engine(reading.next()).await?;
            engine.locks.names(prefix, most, reading).await
        })
    }

    fn report<'a>(
        &'a self,
        process: ProcessId,
        report: Arc<str>,
        deadline: Instant,
    ) -> EngineFuture<'a, ()> {
        Box::pin(async move {
            let engine = self.engine(deadline).await?;
            engine.locks.report(process, &report, deadline).await
        })
    }

    fn reports<'a>(
        &'a self,
        of: Option<&'a [ProcessId]>,
        reading: Reading,
    ) -> EngineFuture<'a, Vec<StoredReport>> {
        Box::pin(async move {
            let engine = self.engine(reading.next()).await?;
            engine.locks.reports(of, reading).await
        })
    }

    fn listen(&self) {
        self.listens.store(true, Ordering::SeqCst);
        if let Some(engine) = self.engine.present() {
            engine.locks.listen();
        }
    }

    fn ask<'a>(&'a self, text: &'a str, deadline: Instant) -> EngineFuture<'a, ()> {
        Box::pin(async move { self.engine(deadline).await?.locks.ask(text, deadline).await })
    }

    fn take<'a>(
        &'a self,
        name: &'a str,
        token: &'a str,
        at_least: u64,
        deadline: Instant,
    ) -> EngineFuture<'a, Taken> {
        Box::pin(async move {
            let engine = self.engine(deadline).await?;
            let taken = engine.locks.take_at_member(name, token, at_least, deadline);
            taken.await
        })
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
        let engine = self.engine.present();
        engine.map_or(0, |engine| engine.shard_of(name).slot)
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
                .locks
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
                .locks
                .observe(entry, deadline)
                .await
        })
    }

    fn leave_queue<'a>(&'a self, entry: &'a Claim, deadline: Instant) -> EngineFuture<'a, ()> {
        Box::pin(async move {
            self.engine(deadline)
                .await?
                .locks
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
                .locks
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
                .locks
                .raise_fencing_token(claim, token, deadline)
                .await
        })
    }
}
