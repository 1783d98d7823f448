//! What is asked of the servers about locks, on which connection.

use crate::engine::error::{EngineError, Fault};
use crate::engine::redis::Redis;
use crate::engine::redis::net::batch::Request;
use crate::engine::redis::net::per_runtime::Home;
use crate::engine::redis::net::replica_ack::enough;
use crate::engine::redis::scripts::Script;
use crate::engine::request::Claim;
use crate::util::join_all::all;
use redis::{Cmd, ErrorKind, FromRedisValue, ServerErrorKind};
use std::time::Duration;
use tokio::time::Instant;

/// On which connection something is asked.
#[derive(Clone, Copy)]
pub(super) enum Way<'a> {
    Home(&'a Home),
    /// The I/O thread's.
    Io,
    /// The same, waiting for a connection while there is none.
    Patient,
    /// The I/O thread's on which so many replicas are waited for; not for this.
    Behind(u32),
    /// The same. The answer is a pair: the command's own, and how many replicas know of it.
    Acknowledged(u32),
}

impl<'a> From<Option<&'a Home>> for Way<'a> {
    fn from(home: Option<&'a Home>) -> Way<'a> {
        home.map_or(Way::Io, Way::Home)
    }
}

impl Redis {
    pub(super) async fn ask<T: FromRedisValue>(
        &self,
        way: Way<'_>,
        lock: &str,
        command: Cmd,
        until: Instant,
    ) -> Result<T, EngineError> {
        let (replicas, acknowledged) = match way {
            Way::Home(home) => return self.route.ask_from(home, lock, command, until).await,
            Way::Io | Way::Patient => (0, false),
            Way::Behind(replicas) => (replicas, false),
            Way::Acknowledged(replicas) => (replicas, true),
        };
        let request = Request {
            replicas,
            acknowledged,
            patient: matches!(way, Way::Patient),
            ..Request::from(command)
        };
        self.route.ask(lock, request, until).await
    }

    /// Calls a script on a lock's keys. `arguments` adds the keys, then the rest.
    pub(super) async fn call<T: FromRedisValue>(
        &self,
        way: Way<'_>,
        script: &Script,
        (lock, keys): (&str, usize),
        until: Instant,
        arguments: impl Fn(&mut Cmd),
    ) -> Result<T, EngineError> {
        let mut command = script.by_digest(keys);
        arguments(&mut command);
        match self.ask(way, lock, command, until).await {
            Err(error) if is_unknown_script(&error) => {
                let mut command = script.by_source(keys);
                arguments(&mut command);
                self.ask(way, lock, command, until).await
            }
            answer => answer,
        }
    }

    pub(super) fn queue_keys(&self, command: &mut Cmd, claim: &Claim) {
        command
            .arg(&*claim.name)
            .arg(self.names.queue(&claim.name))
            .arg(self.names.waiters(&claim.name));
    }

    pub(super) fn tombstone(&self, claim: &Claim) -> String {
        let names = &self.names;
        names.tombstone(&claim.name, claim.token.encode(&mut [0; 32]))
    }

    /// Takes the lock if it is free.
    pub(super) async fn take(
        &self,
        way: Way<'_>,
        claim: &Claim,
        until: Instant,
    ) -> Result<bool, EngineError> {
        let mut command = Cmd::with_capacity(6, 96 + claim.name.len());
        command
            .arg("SET")
            .arg(&*claim.name)
            .arg(claim.token.encode(&mut [0; 32]))
            .arg("NX")
            .arg("PX")
            .arg(milliseconds(claim.ttl));
        if let Way::Acknowledged(wanted) = way {
            return match self.ask(way, &claim.name, command, until).await? {
                (Some(_), known) => enough(known, wanted).map(|()| true),
                (None::<String>, _) => Ok(false),
            };
        }
        let set: Option<String> = self.ask(way, &claim.name, command, until).await?;
        Ok(set.is_some())
    }

    pub(super) async fn release_from(
        &self,
        way: Way<'_>,
        claim: &Claim,
        until: Instant,
    ) -> Result<bool, EngineError> {
        let nothing = self.names.nothing(&claim.name);
        let keys = (&*claim.name, 3 + nothing.iter().count());
        let script = &self.scripts.release;
        let released = self.call(way, script, keys, until, |command| {
            self.queue_keys(command, claim);
            command.arg(&nothing).arg(claim.token.encode(&mut [0; 32]));
        });
        let released: Result<u8, _> = released.await;
        if !matches!(&released, Err(error) if is_moving(error)) {
            return released.map(|released| released == 1);
        }
        // Where the slot moves from node to node, one key is to be had, but not several.
        let (script, keys) = (&self.scripts.free, (&*claim.name, 1));
        let freed = self.call(way, script, keys, until, |command| {
            command
                .arg(&*claim.name)
                .arg(claim.token.encode(&mut [0; 32]));
        });
        freed.await.map(|freed: u8| freed == 1)
    }

    pub(super) fn slot(&self, claim: &Claim) -> u16 {
        self.route.kept_at(&claim.name).1
    }

    pub(super) async fn renew_in_slot(
        &self,
        claims: &[Claim],
        until: Instant,
    ) -> Vec<Result<bool, EngineError>> {
        match self.renew_at_once(claims, until).await {
            Ok(renewed) => renewed,
            Err(error) if is_moving(&error) => {
                let each = claims.iter().map(async |claim| {
                    let renewed = self.renew_at_once(std::slice::from_ref(claim), until);
                    renewed.await?.pop().unwrap_or(Ok(false))
                });
                all(each).await
            }
            Err(error) => claims.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    pub(super) async fn renew_at_once(
        &self,
        claims: &[Claim],
        until: Instant,
    ) -> Result<Vec<Result<bool, EngineError>>, EngineError> {
        let Some(first) = claims.first() else {
            return Ok(Vec::new());
        };
        let keys = (&*first.name, claims.len());
        let (script, arguments) = (&self.scripts.renew, |command: &mut Cmd| {
            for claim in claims {
                command.arg(&*claim.name);
            }
            for claim in claims {
                command
                    .arg(claim.token.encode(&mut [0; 32]))
                    .arg(milliseconds(claim.ttl));
            }
        });
        let (renewed, known): (Vec<u8>, u32) = match claims.iter().map(|c| c.replicas).max() {
            None | Some(0) => {
                let renewed = self.call(Way::Patient, script, keys, until, arguments);
                (renewed.await?, 0)
            }
            Some(replicas) => {
                let way = Way::Acknowledged(replicas);
                self.call(way, script, keys, until, arguments).await?
            }
        };
        if renewed.len() != claims.len() {
            let words = format!("{} answers to {} renewals", renewed.len(), claims.len());
            return Err(nonsense(words));
        }
        let renewed = renewed.into_iter().zip(claims);
        Ok(renewed
            .map(|(renewed, claim)| match renewed {
                1 => enough(known, claim.replicas).map(|()| true),
                _ => Ok(false),
            })
            .collect())
    }
}

pub(super) fn nonsense(words: String) -> EngineError {
    EngineError::new(Fault::Hindered, format!("the server answered {words}"))
}

pub(super) fn milliseconds(ttl: Duration) -> u64 {
    u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)
}

fn is_unknown_script(error: &EngineError) -> bool {
    is(error, ServerErrorKind::NoScript)
}

/// Whether some of the keys are on another node of the cluster, since their slot moves there now.
pub(super) fn is_moving(error: &EngineError) -> bool {
    is(error, ServerErrorKind::TryAgain)
}

fn is(error: &EngineError, kind: ServerErrorKind) -> bool {
    let error = error.source.downcast_ref::<redis::RedisError>();
    error.is_some_and(|error| error.kind() == ErrorKind::Server(kind))
}
