//! A member that is a deployment of Redis, and may not be there yet.

use crate::engine::error::{EngineError, Fault};
use crate::engine::event::Ear;
use crate::engine::inspection::Inspection;
use crate::engine::member::{Look, Member, Vote};
use crate::engine::redis::Redis;
use crate::engine::redis::topology::Site;
use crate::engine::request::{Answer, Claim};
use crate::engine::timeouts::Timeouts;
use crate::engine::token::Token;
use crate::engine::traits::Engine;
use crate::trace;
use crate::util::backoff::Backoff;
use crate::util::io_thread::{Io, instant};
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

pub(crate) struct Deployment {
    io: Io,
    address: Arc<str>,
    state: Arc<watch::Sender<State>>,
}

enum State {
    Connecting,
    /// So ended the last try to connect; more follow.
    Down(EngineError),
    /// From now on it looks after its connections by itself.
    Up(Arc<Redis>),
}

impl Deployment {
    /// Begins to connect, and keeps at it until it has.
    pub(crate) fn open(
        io: Io,
        site: Site,
        timeouts: Timeouts,
        prefix: &str,
        ear: Ear,
    ) -> Deployment {
        let state = Arc::new(watch::Sender::new(State::Connecting));
        let address = site.to_string().into();
        let (prefix, weak) = (prefix.to_owned(), Arc::downgrade(&state));
        let server = site.clone();
        io.spawn(async move {
            let connect = || Redis::connect(io, site.clone(), timeouts, &prefix, ear.clone());
            keep_connecting(weak, &server, connect).await;
        });
        Deployment { io, address, state }
    }

    /// Waits until the first try to connect has ended.
    pub(crate) async fn reached(&self, until: Instant) -> Result<(), EngineError> {
        self.redis(until).await.map(drop)
    }

    async fn redis(&self, until: Instant) -> Result<Arc<Redis>, EngineError> {
        if let State::Up(redis) = &*self.state.borrow() {
            return Ok(redis.clone());
        }
        let mut state = self.state.subscribe();
        let settled = state.wait_for(|state| !matches!(state, State::Connecting));
        match self.io.timeout_at(until, settled).await {
            Ok(Ok(state)) => match &*state {
                State::Up(redis) => Ok(redis.clone()),
                State::Down(error) => Err(error.clone()),
                State::Connecting => Err(connecting()),
            },
            _ => Err(connecting()),
        }
    }
}

fn connecting() -> EngineError {
    EngineError::new(Fault::Down, "connecting to the server")
}

async fn keep_connecting<F>(
    state: Weak<watch::Sender<State>>,
    server: &Site,
    connect: impl Fn() -> F,
) where
    F: Future<Output = Result<Redis, EngineError>>,
{
    let mut backoff = Backoff::new(Duration::from_millis(10), Duration::from_millis(400));
    let mut told = trace::Connection::default();
    loop {
        let connected = connect().await;
        let Some(state) = state.upgrade() else {
            return;
        };
        match connected {
            Ok(redis) => {
                told.made(server, "requests");
                state.send_replace(State::Up(Arc::new(redis)));
                return;
            }
            Err(error) => {
                told.failed(server, "requests", &error);
                state.send_replace(State::Down(error))
            }
        };
        drop(state);
        tokio::time::sleep(backoff.pause()).await;
    }
}

impl Member for Deployment {
    fn address(&self) -> &str {
        &self.address
    }

    fn inspect(
        &self,
        ttl: Duration,
        replicas: u32,
    ) -> Pin<Box<dyn Future<Output = Inspection> + Send + '_>> {
        Box::pin(async move {
            match self.redis(instant()).await {
                Ok(redis) => redis.inspect(ttl, replicas).await,
                Err(error) => {
                    let mut found = Inspection::default();
                    found.add_unreachable(&self.address, &error);
                    found
                }
            }
        })
    }

    fn slot(&self, name: &str) -> u16 {
        match &*self.state.borrow() {
            State::Up(redis) => redis.kept_at(name).1,
            _ => 0,
        }
    }

    fn vote<'a>(
        &'a self,
        claim: &'a Claim,
        place: Option<Token>,
        until: Instant,
    ) -> Answer<'a, Vote> {
        Box::pin(async move { self.redis(until).await?.vote(claim, place, until).await })
    }

    fn look<'a>(&'a self, place: &'a Claim, until: Instant) -> Answer<'a, Look> {
        Box::pin(async move { self.redis(until).await?.look(place, until).await })
    }

    fn leave<'a>(&'a self, place: &'a Claim, until: Instant) -> Answer<'a, ()> {
        Box::pin(async move { self.redis(until).await?.leave(place, until).await })
    }

    fn free<'a>(&'a self, claim: &'a Claim, held: bool, until: Instant) -> Answer<'a, bool> {
        Box::pin(async move { self.redis(until).await?.free(claim, held, until).await })
    }

    fn renew<'a>(
        &'a self,
        claims: &'a [Claim],
        until: Instant,
    ) -> Answer<'a, Vec<Result<bool, EngineError>>> {
        Box::pin(async move { Engine::renew(&*self.redis(until).await?, claims, until).await })
    }

    fn fencing_token<'a>(&'a self, claim: &'a Claim, until: Instant) -> Answer<'a, Option<u64>> {
        Box::pin(async move {
            let redis = self.redis(until).await?;
            Engine::fencing_token(&*redis, claim, until).await
        })
    }

    fn store_fencing_token<'a>(
        &'a self,
        claim: &'a Claim,
        token: u64,
        until: Instant,
    ) -> Answer<'a, bool> {
        Box::pin(async move {
            let redis = self.redis(until).await?;
            redis.store_fencing_token(claim, token, until).await
        })
    }
}
