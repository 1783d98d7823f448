//! A quorum member that is a Redis deployment, and may not be reachable yet.

use crate::config::Config;
use crate::engine::common::pace::Pace;
use crate::engine::common::upkeep::{Connect, Kept, Upkeep};
use crate::engine::error::EngineError;
use crate::engine::event::EventHandler;
use crate::engine::inspection::Inspection;
use crate::engine::opening::Opening;
use crate::engine::operations::Taken;
use crate::engine::redis::RedisEngine;
use crate::engine::redis::quorum::member::Member;
use crate::engine::redis::quorum::requests::answer_vote_requests;
use crate::engine::redis::topology::Topology;
use crate::engine::requests::answer_operations;
use crate::engine::timeouts::Timeouts;
use crate::engine::traits::Engine;
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

    /// Returns the engine that answers a request, once it is connected.
    async fn pass(&self, deadline: Instant) -> Result<Arc<RedisEngine>, EngineError> {
        self.engine.connection_by(deadline, false).await
    }

    async fn connected(&self, deadline: Instant) -> Result<(), EngineError> {
        self.pass(deadline).await.map(drop)
    }

    async fn take(
        &self,
        name: &str,
        token: &str,
        at_least: u64,
        deadline: Instant,
    ) -> Result<Taken, EngineError> {
        let engine = self.pass(deadline).await?;
        engine.take_at_member(name, token, at_least, deadline).await
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
            engine.listen();
        }
    }
}

answer_operations! { RedisMember: pass[ping views names report reports ask recall] own[take] }

answer_vote_requests! {
    RedisMember:
    own[connected]
    pass[vote observe leave_queue withdraw renew fencing_token raise_fencing_token]
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
            match self.pass(now()).await {
                Ok(engine) => engine.inspect(ttl, replicas).await,
                Err(error) => {
                    let mut found = Inspection::default();
                    found.add_unreachable(&self.address, &error);
                    found
                }
            }
        })
    }

    fn slot(&self, name: &str) -> u16 {
        let engine = self.engine.present();
        engine.map_or(0, |engine| engine.shard_of(name).slot)
    }

    fn hears_recalls(&self) -> bool {
        let engine = self.engine.present();
        engine.is_some_and(|engine| engine.hears_recalls(""))
    }

    fn listen(&self) {
        self.listens.store(true, Ordering::SeqCst);
        if let Some(engine) = self.engine.present() {
            engine.listen();
        }
    }
}
