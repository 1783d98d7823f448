//! Locks on several independent deployments of Redis, as in
//! [Redlock](https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/): a lock is held
//! where a majority of the members has it.
//!
//! Every acquisition is an election with a token of its own, in which all members are asked at once. A
//! member gives a lock to one token at a time, and two majorities share a member, so that no two tokens
//! win at the same time.

pub(crate) mod ballot;
pub(crate) mod election;
pub(crate) mod fencing;
pub(crate) mod majority;
pub(crate) mod member_states;
pub(crate) mod members;
pub(crate) mod queue_entry;
pub(crate) mod release_hints;
pub(crate) mod renewal;
pub(crate) mod tally;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod votes;
pub(crate) mod waiting;

use crate::engine::error::EngineError;
use crate::engine::event::Ear;
use crate::engine::inspection::Inspection;
use crate::engine::member::Member;
use crate::engine::quorum::ballot::Ballot;
use crate::engine::quorum::election::Outcome;
use crate::engine::quorum::fencing::fencing_token;
use crate::engine::quorum::members::Members;
use crate::engine::quorum::release_hints::Hints;
use crate::engine::quorum::renewal::renew;
use crate::engine::quorum::tally::Tally;
use crate::engine::redis::member::RedisMember;
use crate::engine::redis::topology::Topology;
use crate::engine::request::{Answer, Claim, ServerTime, Standing};
use crate::engine::timeouts::Timeouts;
use crate::engine::traits::Engine;
use crate::util::io_thread::Io;
use crate::util::join_all::all;
use crate::util::time::after;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How long the first members to be connected wait for the others.
const STRAGGLERS: Duration = Duration::from_millis(100);

pub(crate) struct Quorum {
    members: Arc<Members>,
}

impl Quorum {
    /// Connects to a majority, and fails if that can't be done within the connect timeout. The other
    /// members are connected to when they are there.
    pub(crate) async fn connect(
        io: Io,
        sites: Vec<Topology>,
        timeouts: Timeouts,
        prefix: &str,
        ear: Ear,
    ) -> Result<Quorum, EngineError> {
        let hints = Hints::new(sites.len(), ear);
        let open = |(member, site)| {
            Arc::new(RedisMember::open(
                io,
                site,
                timeouts,
                prefix,
                hints.ear(member),
            ))
        };
        let deployments: Vec<_> = sites.into_iter().enumerate().map(open).collect();
        let until = after(timeouts.connect);
        let members = deployments.iter().map(|it| it.clone() as _).collect();
        let quorum = Quorum::new(io, members, hints, timeouts.command);
        let mut reached = quorum.members.ask(|member| {
            let deployment = deployments[member].clone();
            async move { deployment.connected(until).await }
        });
        let mut tally = Tally::new(deployments.len());
        let mut bound = until;
        while let Ok(Some((member, reached))) = io.timeout_at(bound, reached.recv()).await {
            quorum.members.note(member, &reached);
            tally.enter(member, reached.map(|()| true));
            // Those who are there as well will have answered by then.
            if tally.decided().is_some() {
                bound = bound.min(after(STRAGGLERS));
            }
        }
        match tally.decided() {
            Some(_) => Ok(quorum),
            None => Err(tally.error(&quorum.members, "connected", "")),
        }
    }

    fn new(io: Io, members: Vec<Arc<dyn Member>>, hints: Arc<Hints>, patience: Duration) -> Quorum {
        Quorum {
            members: Arc::new(Members::new(io, members, hints, patience)),
        }
    }
}

impl Engine for Quorum {
    fn acquire<'a>(&'a self, claim: &'a Claim, until: Instant) -> Answer<'a, bool> {
        Box::pin(async move {
            let ballot = Ballot::open(&self.members, claim.clone(), None);
            let run = async move { Ok(ballot.run(until).await) };
            match self.members.on_io(run).await? {
                Outcome::Won(election) => {
                    let known = match claim.replicas {
                        0 => true,
                        _ => {
                            let renewed = self.renew(std::slice::from_ref(claim), until);
                            renewed.await?.pop().unwrap_or(Ok(false))?
                        }
                    };
                    if known {
                        election.take();
                    }
                    Ok(known)
                }
                Outcome::Lost(_) => Ok(false),
                Outcome::Split(pause, error) => {
                    let io = self.members.io;
                    io.sleep_until(after(pause).min(until)).await;
                    Err(error)
                }
                Outcome::Unknown(error) => Err(error),
            }
        })
    }

    // A late request of an election finds that it is over.
    fn wait<'a>(
        &'a self,
        claim: &'a Claim,
        _: Option<ServerTime>,
        until: Instant,
    ) -> Answer<'a, Standing> {
        Box::pin(self.stand(claim, until))
    }

    fn cancel<'a>(&'a self, claim: &'a Claim, _: bool, until: Instant) -> Answer<'a, bool> {
        Box::pin(async move {
            if self.members.ballot(claim.token).is_some() {
                return self.release(claim, until).await;
            }
            let leave = self.members.leave(claim.token);
            let _ = self.members.io.timeout_at(until, leave).await;
            Ok(false)
        })
    }

    fn release<'a>(&'a self, claim: &'a Claim, until: Instant) -> Answer<'a, bool> {
        Box::pin(async move {
            let Some(ballot) = self.members.ballot(claim.token) else {
                return Ok(false);
            };
            let mut cleared = ballot.clear(true).subscribe();
            let certain = cleared
                .wait_for(|cleared| cleared.found.decided().is_some() || cleared.missing == 0);
            // The others are cleared all the same.
            let _ = self.members.io.timeout_at(until, certain).await;
            let found = cleared.borrow().found.clone();
            found
                .decided()
                .ok_or_else(|| found.error(&self.members, "released", "not ours"))
        })
    }

    fn renew<'a>(
        &'a self,
        claims: &'a [Claim],
        until: Instant,
    ) -> Answer<'a, Vec<Result<bool, EngineError>>> {
        Box::pin(renew(self.members.clone(), claims.into(), until))
    }

    /// Members that are clusters have the same slots.
    fn kept_at(&self, name: &str) -> (usize, u16) {
        let slots = self.members.all.iter().map(|member| member.slot(name));
        (0, slots.max().unwrap_or_default())
    }

    fn fencing_token<'a>(&'a self, claim: &'a Claim, until: Instant) -> Answer<'a, Option<u64>> {
        let token = fencing_token(self.members.clone(), claim.clone(), until);
        Box::pin(self.members.on_io(token))
    }

    fn inspect(
        &self,
        ttl: Duration,
        replicas: u32,
    ) -> Pin<Box<dyn Future<Output = Inspection> + Send + '_>> {
        Box::pin(async move {
            let members = self.members.all.iter();
            let found = all(members.map(|member| member.inspect(ttl, replicas))).await;
            Inspection::merge(found, ttl)
        })
    }

    fn rest(&self) -> Answer<'_, ()> {
        Box::pin(async {
            self.members.rest().await;
            Ok(())
        })
    }
}
