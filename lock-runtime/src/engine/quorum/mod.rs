//! Locks on several independent deployments of Redis, as in
//! [Redlock](https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/): a lock is held
//! where a majority of the members has it.
//!
//! Every acquisition is an election with a token of its own, in which all members are asked at once. A
//! member gives a lock to one token at a time, and two majorities share a member, so that no two tokens
//! win at the same time.

mod ballot;
mod deployment;
mod election;
mod fencing;
mod footprint;
mod hints;
mod member;
mod members;
mod no_majority;
mod place;
mod renewal;
mod tally;
#[cfg(test)]
mod tests;
mod votes;

use super::redis::Timeouts;
use super::redis::site::Site;
use super::{
    Answer, Claim, Ear, Engine, EngineError, Inspection, ServerTime, Standing, Token, Waiting,
};
use crate::backoff::fraction;
use crate::io::{Io, after};
use crate::together::all;
use ballot::Ballot;
use deployment::Deployment;
use election::{Outcome, count};
use fencing::fencing_token;
use hints::Hints;
use members::Members;
use renewal::renew;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tally::Tally;
use tokio::time::Instant;
use votes::{Verdict, Votes};

pub(crate) use member::{Look, Member, Vote};

/// How long claims that were in each other's way wait before they ask again, about.
const SPLIT: Duration = Duration::from_millis(10);

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
        sites: Vec<Site>,
        timeouts: Timeouts,
        prefix: &str,
        ear: Ear,
    ) -> Result<Quorum, EngineError> {
        let hints = Hints::new(sites.len(), ear);
        let open = |(member, site)| {
            Arc::new(Deployment::open(
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
            async move { deployment.reached(until).await }
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

    /// Takes a place in the queues of all members, and the lock if it is free.
    async fn stand(&self, place: &Claim, until: Instant) -> Result<Standing, EngineError> {
        if !self.members.hints.asks(place.token)
            && let Some(standing) = self.look(place, until).await?
        {
            return Ok(standing);
        }
        // What an election leaves behind must never be taken for the next one's.
        let token = Token::fresh();
        let claim = Claim {
            token,
            ..place.clone()
        };
        let standing = self.members.place(place);
        let ballot = Ballot::open(&self.members, claim, Some(standing));
        match ballot.run(until).await {
            Outcome::Won(election) => {
                election.take();
                drop(self.members.leave(place.token));
                Ok(Standing::Elected(token, place.ttl))
            }
            Outcome::Lost(left) => Ok(Standing::Waiting(again_in(left))),
            Outcome::Split(pause, _) => Ok(Standing::Waiting(again_in(pause))),
            Outcome::Unknown(error) => Err(error),
        }
    }

    /// Sees how the lock stands; none if it can be had.
    async fn look(&self, place: &Claim, until: Instant) -> Result<Option<Standing>, EngineError> {
        let members = &self.members;
        let bound = until.min(members.patience(place.ttl));
        let standing = members.place(place);
        let mut looks = members.ask(|member| {
            let standing = standing.clone();
            async move { standing.look(member, bound).await }
        });
        let mut votes = Votes::new(members.count(), place.token);
        let (mut ahead, mut others) = (Vec::new(), false);
        let read = |look| match look {
            Ok(look) => {
                let look: Look = look;
                ahead.push(look.ahead);
                others |= look.others;
                match look.holder {
                    Some((by, left)) => Vote::Held { by, left },
                    None => Vote::Granted,
                }
            }
            Err(error) => Vote::Failed(error),
        };
        let left = match count(members.io, &mut votes, &mut looks, read, || {}, until).await {
            Verdict::Won => return Ok(None),
            Verdict::Lost => votes.free_in(),
            Verdict::Split { .. } => SPLIT + fraction(SPLIT),
            Verdict::Open | Verdict::Unknown => return Err(votes.error(&members.all)),
        };
        ahead.sort_unstable();
        Ok(Some(Standing::Waiting(Waiting {
            ahead: ahead.get(ahead.len() / 2).copied().unwrap_or_default(),
            others,
            ..again_in(left)
        })))
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
            Inspection::of_members(found, ttl)
        })
    }

    fn rest(&self) -> Answer<'_, ()> {
        Box::pin(async {
            self.members.rest().await;
            Ok(())
        })
    }
}

/// A claim that waits is to ask again when so much time has passed.
fn again_in(left: Duration) -> Waiting {
    Waiting {
        at: ServerTime(Duration::ZERO),
        holder_left: left,
        ahead: 0,
        others: true,
    }
}
