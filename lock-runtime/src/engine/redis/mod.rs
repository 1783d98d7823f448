//! Locks on one Redis server.
//!
//! A lock is a plain string: `<prefix><key>` holds its holder's token and expires after the ttl, so
//! every client that uses `SET NX PX` and compare-and-delete excludes and is excluded.

mod batch;
mod connection;
mod grants;
mod home;
mod hosts;
mod link;
mod script;
pub(crate) mod sentinel;
pub(crate) mod site;
pub(crate) mod target;

use super::{
    ALIVE, Answer, Claim, Ear, Engine, EngineError, Fault, ServerTime, Standing, TOMBSTONE, Waiting,
};
use crate::io::Io;
use connection::Dialer;
use grants::Grants;
use home::{Home, Homes};
use link::Link;
use redis::{Cmd, ErrorKind, FromRedisValue, ServerErrorKind, Value};
use std::sync::Arc;

use script::Script;
use site::Site;
use std::time::Duration;
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
    homes: Arc<Homes>,
    grants: Grants,
    scripts: Scripts,
    prefix: String,
}

struct Scripts {
    wait: Script,
    cancel: Script,
    release: Script,
    renew: Script,
    fence: Script,
}

impl Redis {
    /// Connects, and fails if that can't be done within the connect timeout.
    pub(crate) async fn connect(
        io: Io,
        site: Site,
        timeouts: Timeouts,
        prefix: &str,
        ear: Ear,
    ) -> Result<Redis, EngineError> {
        let scripts = Scripts {
            wait: Script::new(concat!(include_str!("queue.lua"), include_str!("wait.lua"))),
            cancel: Script::new(concat!(
                include_str!("cancel.lua"),
                include_str!("queue.lua"),
                include_str!("hand_on.lua"),
            )),
            release: Script::new(concat!(
                include_str!("release.lua"),
                include_str!("queue.lua"),
                include_str!("hand_on.lua"),
            )),
            renew: Script::new(include_str!("renew.lua")),
            fence: Script::new(include_str!("fence.lua")),
        };
        let greeting = [
            &scripts.wait,
            &scripts.cancel,
            &scripts.release,
            &scripts.renew,
            &scripts.fence,
        ]
        .map(Script::load);
        let dialer = Dialer {
            io,
            site,
            timeouts,
            greeting: greeting.into(),
            subscriber: None,
            batched: true,
            dialled: 0,
            last: None,
        };
        Ok(Redis {
            grants: Grants::new(&dialer, prefix, ear),
            homes: Homes::new(&dialer),
            link: Link::connect(io, dialer).await?,
            scripts,
            prefix: prefix.to_owned(),
        })
    }

    async fn ask<T: FromRedisValue>(
        &self,
        home: Option<&Home>,
        command: Cmd,
        until: Instant,
    ) -> Result<T, EngineError> {
        match home {
            Some(home) => home.ask(command, until).await,
            None => self.link.ask(command, until).await,
        }
    }

    /// Calls a script. `arguments` adds the keys, then the rest.
    async fn call<T: FromRedisValue>(
        &self,
        home: Option<&Home>,
        script: &Script,
        keys: usize,
        until: Instant,
        arguments: impl Fn(&mut Cmd),
    ) -> Result<T, EngineError> {
        let mut command = script.by_digest(keys);
        arguments(&mut command);
        match self.ask(home, command, until).await {
            Err(error) if is_unknown_script(&error) => {
                let mut command = script.by_source(keys);
                arguments(&mut command);
                self.ask(home, command, until).await
            }
            answer => answer,
        }
    }
}

impl Redis {
    /// The name of a key that belongs to a lock, or to all of them. No lock has such a name.
    fn derived(&self, kind: &str, key: &str) -> String {
        [&self.prefix, "::", kind, key].concat()
    }

    fn queue_keys(&self, command: &mut Cmd, claim: &Claim) {
        let key = &claim.name[self.prefix.len()..];
        command
            .arg(&*claim.name)
            .arg(self.derived("queue:", key))
            .arg(self.derived("waiters:", key));
    }

    fn tombstone(&self, claim: &Claim) -> String {
        self.derived("gone:", claim.token.encode(&mut [0; 32]))
    }
}

impl Redis {
    async fn release_from(
        &self,
        home: Option<&Home>,
        claim: &Claim,
        until: Instant,
    ) -> Result<bool, EngineError> {
        let arguments = |command: &mut Cmd| {
            self.queue_keys(command, claim);
            command.arg(claim.token.encode(&mut [0; 32]));
        };
        let script = &self.scripts.release;
        let released: u8 = self.call(home, script, 3, until, arguments).await?;
        Ok(released == 1)
    }
}

impl Engine for Redis {
    fn acquire<'a>(&'a self, claim: &'a Claim, until: Instant) -> Answer<'a, bool> {
        Box::pin(async move {
            let mut command = Cmd::with_capacity(6, 96 + claim.name.len());
            command
                .arg("SET")
                .arg(&*claim.name)
                .arg(claim.token.encode(&mut [0; 32]))
                .arg("NX")
                .arg("PX")
                .arg(milliseconds(claim.ttl));
            let flight = self.homes.follow(claim.token);
            let answer = self.ask(flight.home.as_deref(), command, until).await;
            flight.landed(&answer);
            answer.map(|set: Option<String>| set.is_some())
        })
    }

    fn wait<'a>(
        &'a self,
        claim: &'a Claim,
        void_after: Option<ServerTime>,
        until: Instant,
    ) -> Answer<'a, Standing> {
        Box::pin(async move {
            self.grants.ready(until).await?;
            let void_after = void_after.map_or(0, |time| time.0.as_micros());
            let standing: Vec<u64> = self
                .call(None, &self.scripts.wait, 4, until, |command| {
                    self.queue_keys(command, claim);
                    command
                        .arg(self.tombstone(claim))
                        .arg(claim.token.encode(&mut [0; 32]))
                        .arg(milliseconds(claim.ttl))
                        .arg(&self.grants.channel)
                        .arg(ALIVE.as_micros() as u64)
                        .arg(void_after as u64);
                })
                .await?;
            match standing[..] {
                [0] => Ok(Standing::Void),
                [3, left] => Ok(Standing::Adopted(Duration::from_millis(left))),
                [1, left] => Ok(Standing::Granted(Duration::from_millis(left))),
                [2, at, holder_left, ahead, length] => Ok(Standing::Waiting(Waiting {
                    at: ServerTime(Duration::from_micros(at)),
                    holder_left: Duration::from_millis(holder_left),
                    ahead,
                    others: length > 1,
                })),
                _ => Err(nonsense(format!("{standing:?} to a claim that waits"))),
            }
        })
    }

    fn cancel<'a>(
        &'a self,
        claim: &'a Claim,
        unanswered: bool,
        until: Instant,
    ) -> Answer<'a, bool> {
        Box::pin(async move {
            let stands = if unanswered {
                milliseconds(TOMBSTONE)
            } else {
                0
            };
            let held: u8 = self
                .call(None, &self.scripts.cancel, 4, until, |command| {
                    self.queue_keys(command, claim);
                    command
                        .arg(self.tombstone(claim))
                        .arg(claim.token.encode(&mut [0; 32]))
                        .arg(stands);
                })
                .await?;
            Ok(held == 1)
        })
    }

    fn missed(&self) {
        self.grants.replace();
    }

    fn is_at_home(&self) -> bool {
        self.homes.here().is_some()
    }

    fn release<'a>(&'a self, claim: &'a Claim, until: Instant) -> Answer<'a, bool> {
        Box::pin(async move {
            let Some(sent_from) = self.homes.unsettled(claim.token) else {
                return self
                    .release_from(self.homes.here().as_deref(), claim, until)
                    .await;
            };
            let answer = self.release_from(sent_from.as_deref(), claim, until).await;
            if !matches!(&answer, Err(error) if error.is_transient()) {
                return answer;
            }
            let Some(home) = sent_from else {
                self.homes.leave_unsettled(claim.token, None);
                return answer;
            };
            // The home is gone. What it has sent must not be carried out later than this.
            if let Some(peer) = &home.connection.peer
                && let Err(error) = self.link.ask::<Value>(peer.kill(), until).await
                && error.is_transient()
            {
                self.homes.leave_unsettled(claim.token, Some(home));
                return Err(error);
            }
            self.release_from(None, claim, until).await
        })
    }

    fn renew<'a>(
        &'a self,
        claims: &'a [Claim],
        until: Instant,
    ) -> Answer<'a, Vec<Result<bool, EngineError>>> {
        Box::pin(async move {
            let renewed: Vec<u8> = self
                .call(None, &self.scripts.renew, claims.len(), until, |command| {
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
                return Err(nonsense(words));
            }
            Ok(renewed
                .into_iter()
                .map(|renewed| Ok(renewed == 1))
                .collect())
        })
    }

    fn fencing_token<'a>(&'a self, claim: &'a Claim, until: Instant) -> Answer<'a, Option<u64>> {
        Box::pin(self.call(None, &self.scripts.fence, 2, until, |command| {
            command
                .arg(&*claim.name)
                .arg(self.derived("fence", ""))
                .arg(claim.token.encode(&mut [0; 32]));
        }))
    }
}

fn nonsense(words: String) -> EngineError {
    EngineError::new(Fault::Hindered, format!("the server answered {words}"))
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
