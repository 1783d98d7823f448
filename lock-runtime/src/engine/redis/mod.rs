//! Locks on one Redis server.
//!
//! A lock is a plain string: `<prefix><key>` holds its holder's token and expires after the ttl, so
//! every client that uses `SET NX PX` and compare-and-delete excludes and is excluded.

mod link;
mod script;
pub(crate) mod target;

use super::{Answer, Claim, Engine, EngineError, Fault};
use crate::io::Io;
use link::Link;
use redis::{Cmd, ErrorKind, FromRedisValue, ServerErrorKind};
use script::Script;
use std::time::Duration;
use target::Target;
use tokio::time::Instant;

/// How long to wait for what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    pub(crate) connect: Duration,
    /// A connection on which nothing has been answered for so long is given up.
    pub(crate) command: Duration,
}

pub(crate) struct Redis {
    link: Link,
    scripts: Scripts,
    fence_counter: String,
}

struct Scripts {
    release: Script,
    renew: Script,
    fence: Script,
}

impl Redis {
    /// Connects, and fails if that can't be done within the connect timeout.
    pub(crate) async fn connect(
        io: Io,
        target: Target,
        timeouts: Timeouts,
        prefix: &str,
    ) -> Result<Redis, EngineError> {
        let scripts = Scripts {
            release: Script::new(include_str!("release.lua")),
            renew: Script::new(include_str!("renew.lua")),
            fence: Script::new(include_str!("fence.lua")),
        };
        let greeting = [&scripts.release, &scripts.renew, &scripts.fence].map(Script::load);
        Ok(Redis {
            link: Link::connect(io, target, timeouts, greeting.into()).await?,
            scripts,
            fence_counter: format!("{prefix}::fence"),
        })
    }

    /// Calls a script. `arguments` adds the keys, then the rest.
    async fn call<T: FromRedisValue>(
        &self,
        script: &Script,
        keys: usize,
        until: Instant,
        arguments: impl Fn(&mut Cmd),
    ) -> Result<T, EngineError> {
        let mut command = script.by_digest(keys);
        arguments(&mut command);
        match self.link.ask(&command, until).await {
            Err(error) if is_unknown_script(&error) => {
                let mut command = script.by_source(keys);
                arguments(&mut command);
                self.link.ask(&command, until).await
            }
            answer => answer,
        }
    }
}

impl Engine for Redis {
    fn acquire<'a>(&'a self, claim: &'a Claim, until: Instant) -> Answer<'a, bool> {
        Box::pin(async move {
            let mut command = redis::cmd("SET");
            command
                .arg(&*claim.name)
                .arg(claim.token.encode(&mut [0; 32]))
                .arg("NX")
                .arg("PX")
                .arg(milliseconds(claim.ttl));
            let answer: Option<String> = self.link.ask(&command, until).await?;
            Ok(answer.is_some())
        })
    }

    fn release<'a>(&'a self, claim: &'a Claim, until: Instant) -> Answer<'a, bool> {
        Box::pin(async move {
            let released: u8 = self
                .call(&self.scripts.release, 1, until, |command| {
                    command
                        .arg(&*claim.name)
                        .arg(claim.token.encode(&mut [0; 32]));
                })
                .await?;
            Ok(released == 1)
        })
    }

    fn renew<'a>(&'a self, claims: &'a [Claim], until: Instant) -> Answer<'a, Vec<bool>> {
        Box::pin(async move {
            let renewed: Vec<u8> = self
                .call(&self.scripts.renew, claims.len(), until, |command| {
                    for claim in claims {
                        command.arg(&*claim.name);
                    }
                    for claim in claims {
                        command
                            .arg(claim.token.encode(&mut [0; 32]))
                            .arg(milliseconds(claim.ttl));
                    }
                })
                .await?;
            if renewed.len() != claims.len() {
                let words = format!("{} answers to {} renewals", renewed.len(), claims.len());
                return Err(EngineError::new(Fault::Hindered, words));
            }
            Ok(renewed.into_iter().map(|renewed| renewed == 1).collect())
        })
    }

    fn fencing_token<'a>(&'a self, claim: &'a Claim, until: Instant) -> Answer<'a, Option<u64>> {
        Box::pin(self.call(&self.scripts.fence, 2, until, |command| {
            command
                .arg(&*claim.name)
                .arg(&self.fence_counter)
                .arg(claim.token.encode(&mut [0; 32]));
        }))
    }
}

fn milliseconds(ttl: Duration) -> u64 {
    u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)
}

fn is_unknown_script(error: &EngineError) -> bool {
    error
        .source
        .downcast_ref::<redis::RedisError>()
        .is_some_and(|error| error.kind() == ErrorKind::Server(ServerErrorKind::NoScript))
}
