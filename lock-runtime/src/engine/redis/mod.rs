//! Locks on Redis: on one server, on the master that Sentinels name, or on the nodes of a cluster.
//!
//! A lock is a plain string: `<prefix><key>` holds its holder's token and expires after the ttl, so
//! every client that uses `SET NX PX` and compare-and-delete excludes and is excluded.

pub(crate) mod check;
pub(crate) mod cluster;
pub(crate) mod commands;
pub(crate) mod hash_slot;
pub(crate) mod in_flight;
pub(crate) mod keys;
pub(crate) mod member;
pub(crate) mod net;
pub(crate) mod quorum_commands;
pub(crate) mod router;
pub(crate) mod scripts;
pub(crate) mod sentinel;
pub(crate) mod subscription;
pub(crate) mod topology;

use crate::engine::error::{EngineError, Fault};
use crate::engine::event::Ear;
use crate::engine::inspection::Inspection;
use crate::engine::redis::check::Inspector;
use crate::engine::redis::commands::{Way, is_moving, milliseconds, nonsense};
use crate::engine::redis::in_flight::Unsettled;
use crate::engine::redis::keys::Names;
use crate::engine::redis::net::connection::{Dialer, Sending};
use crate::engine::redis::router::Route;
use crate::engine::redis::scripts::Scripts;
use crate::engine::redis::subscription::Grants;
use crate::engine::redis::topology::Site;
use crate::engine::request::{
    ALIVE, Answer, Claim, ServerTime, Standing, TOMBSTONE, WOKEN, Waiting,
};
use crate::engine::timeouts::Timeouts;
use crate::engine::token::Token;
use crate::engine::traits::Engine;
use crate::util::io_thread::{Io, after};
use crate::util::join_all::all;
use crate::warning::{Danger, Warning};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

pub(crate) struct Redis {
    route: Route,
    unsettled: Unsettled,
    grants: Grants,
    scripts: Scripts,
    inspector: Inspector,
    names: Names,
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
        let cluster = matches!(site, Site::Cluster(_));
        let names = Names::new(prefix, cluster);
        let names = names.map_err(|reason| EngineError::new(Fault::Refused, reason))?;
        let scripts = Scripts::new(cluster);
        let inspector = Inspector {
            io,
            site: site.clone(),
            timeouts,
        };
        let dialer = Dialer {
            io,
            site,
            timeouts,
            greeting: Vec::new(),
            optional: scripts.load(),
            subscriber: None,
            sending: Sending::Batched,
            dialled: 0,
            last: None,
        };
        let redis = Redis {
            grants: Grants::new(&dialer, &names, ear.clone()),
            unsettled: Unsettled::default(),
            route: Route::connect(dialer, ear).await?,
            scripts,
            inspector,
            names,
        };
        redis.has_what_it_needs(after(timeouts.command)).await?;
        Ok(redis)
    }
}

impl Engine for Redis {
    fn acquire<'a>(&'a self, claim: &'a Claim, until: Instant) -> Answer<'a, bool> {
        Box::pin(async move {
            if claim.replicas > 0 {
                return self
                    .take(Way::Acknowledged(claim.replicas), claim, until)
                    .await;
            }
            let own = self.route.own_home(&claim.name);
            let flight = self.unsettled.follow(claim.token, own);
            let way = flight.home.as_deref().into();
            let taken = self.take(way, claim, until).await;
            flight.landed(&taken);
            taken
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
            let keys = (&*claim.name, 4);
            let standing = self.call(Way::Io, &self.scripts.wait, keys, until, |command| {
                self.queue_keys(command, claim);
                command
                    .arg(self.tombstone(claim))
                    .arg(claim.token.encode(&mut [0; 32]))
                    .arg(milliseconds(claim.ttl))
                    .arg(&self.grants.channel)
                    .arg(ALIVE.as_micros() as u64)
                    .arg(WOKEN.as_micros() as u64)
                    .arg(void_after as u64);
            });
            let standing: Vec<u64> = match standing.await {
                // Nobody can queue where the slot moves from node to node; the lock can be had.
                Err(error) if is_moving(&error) => match self.take(Way::Io, claim, until).await? {
                    true => vec![1, milliseconds(claim.ttl)],
                    false => return Err(error),
                },
                standing => standing?,
            };
            match standing[..] {
                [0] => Ok(Standing::Void),
                [3, left] => {
                    self.grants.doubt();
                    Ok(Standing::Adopted(Duration::from_millis(left)))
                }
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
            let nothing = self.names.nothing(&claim.name);
            let keys = (&*claim.name, 4 + nothing.iter().count());
            let held = self.call(Way::Io, &self.scripts.cancel, keys, until, |command| {
                self.queue_keys(command, claim);
                command
                    .arg(self.tombstone(claim))
                    .arg(&nothing)
                    .arg(claim.token.encode(&mut [0; 32]))
                    .arg(stands);
            });
            held.await.map(|held: u8| held == 1)
        })
    }

    fn missed(&self) {
        self.grants.replace();
    }

    fn is_at_home(&self, name: &str) -> bool {
        self.route.own_home(name).is_some_and(|home| home.serves())
    }

    fn release<'a>(&'a self, claim: &'a Claim, until: Instant) -> Answer<'a, bool> {
        Box::pin(async move {
            if claim.replicas > 0 {
                // After the acquisition, should that not have been answered.
                let way = Way::Behind(claim.replicas);
                return self.release_from(way, claim, until).await;
            }
            let Some(sent_from) = self.unsettled.take(claim.token) else {
                let own = self.route.own_home(&claim.name);
                let here = own.filter(|home| home.serves());
                return self
                    .release_from(here.as_deref().into(), claim, until)
                    .await;
            };
            let way = sent_from.as_deref().into();
            let answer = self.release_from(way, claim, until).await;
            if !matches!(&answer, Err(error) if error.is_transient()) {
                return answer;
            }
            let Some(home) = sent_from else {
                self.unsettled.leave(claim.token, None);
                return answer;
            };
            // The home is gone. What it has sent must not be carried out later than this.
            if let Err(error) = self.route.silence(&home, &claim.name, until).await {
                self.unsettled.leave(claim.token, Some(home));
                return Err(error);
            }
            self.release_from(Way::Io, claim, until).await
        })
    }

    fn forget(&self, token: Token) {
        self.unsettled.take(token);
    }

    fn renew<'a>(
        &'a self,
        claims: &'a [Claim],
        until: Instant,
    ) -> Answer<'a, Vec<Result<bool, EngineError>>> {
        Box::pin(async move {
            let slots = claims.chunk_by(|one, next| self.slot(one) == self.slot(next));
            let renewed = all(slots.map(|claims| self.renew_in_slot(claims, until))).await;
            Ok(renewed.into_iter().flatten().collect())
        })
    }

    fn kept_at(&self, name: &str) -> (usize, u16) {
        self.route.kept_at(name)
    }

    fn node_of(&self, name: &str) -> Option<Arc<str>> {
        self.route.node_of(name)
    }

    fn fencing_token<'a>(&'a self, claim: &'a Claim, until: Instant) -> Answer<'a, Option<u64>> {
        let keys = (&*claim.name, 2);
        Box::pin(
            self.call(Way::Io, &self.scripts.fence, keys, until, |command| {
                command
                    .arg(&*claim.name)
                    .arg(self.names.fence(&claim.name))
                    .arg(claim.token.encode(&mut [0; 32]));
            }),
        )
    }

    fn inspect(
        &self,
        ttl: Duration,
        replicas: u32,
    ) -> Pin<Box<dyn Future<Output = Inspection> + Send + '_>> {
        Box::pin(async move {
            let until = after(self.inspector.timeouts.command);
            let (mut found, needs) = tokio::join!(
                self.inspector.inspect(ttl, replicas),
                self.has_what_it_needs(until)
            );
            if let Err(error) = needs {
                let server = self.inspector.site.to_string().into();
                let warning = Warning::new(&server, Danger::Permission, error.to_string());
                found.warnings.push(warning);
            }
            found
        })
    }
}
