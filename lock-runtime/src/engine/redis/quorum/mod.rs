//! Locks on several independent deployments of Redis, as in
//! [Redlock](https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/): a lock is held if a
//! majority of the members stores its token.
//!
//! Every acquisition is an election with its own token, in which all members are asked at once. A member
//! votes for one token at a time, and any two majorities share a member, so no two tokens win at the same
//! time.

pub(crate) mod asks;
pub(crate) mod ballot;
pub(crate) mod election;
pub(crate) mod fencing;
pub(crate) mod majority;
pub(crate) mod member;
pub(crate) mod member_states;
pub(crate) mod members;
pub(crate) mod open;
pub(crate) mod ping;
pub(crate) mod queue_entry;
pub(crate) mod redis_member;
pub(crate) mod registry;
pub(crate) mod release_hints;
pub(crate) mod renewal;
pub(crate) mod replies;
pub(crate) mod reports;
pub(crate) mod requests;
pub(crate) mod take;
#[cfg(feature = "testing")]
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod view;
pub(crate) mod votes;
pub(crate) mod waiting;

use crate::engine::background_release::{AwaitedAcquire, ReleaseSupervisor};
use crate::engine::error::EngineError;
use crate::engine::inspection::Inspection;
use crate::engine::redis::quorum::ballot::Ballot;
use crate::engine::redis::quorum::election::Outcome;
use crate::engine::redis::quorum::majority::majority;
use crate::engine::redis::quorum::member::Member;
use crate::engine::redis::quorum::members::Members;
use crate::engine::redis::quorum::queue_entry::QueueEntry;
use crate::engine::redis::quorum::registry::Registry;
use crate::engine::redis::quorum::release_hints::ReleaseHints;
use crate::engine::request::{Acquired, Attempt, Claim};
use crate::engine::requests::{answer_operations, answer_requests};
use crate::engine::timeouts::Timeouts;
use crate::engine::token::Draw;
use crate::engine::traits::{Engine, Shard};
use crate::error::LockError;
use crate::limit::Limit;
use crate::options::LockOptions;
use crate::util::io_thread::IoThread;
use crate::util::join_all::join_all;
use crate::util::time::deadline_in;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

pub(crate) struct QuorumEngine {
    members: Arc<Members>,
    ballots: Arc<Registry<Ballot>>,
    queue_entries: Arc<Registry<QueueEntry>>,
}

impl QuorumEngine {
    /// Waits until a majority is connected, and fails if that takes longer than the connect timeout. The
    /// other members are connected once they are reachable.
    pub(crate) async fn connect(
        io: IoThread,
        members: Vec<Arc<dyn Member>>,
        hints: Arc<ReleaseHints>,
        timeouts: Timeouts,
    ) -> Result<QuorumEngine, EngineError> {
        let engine = QuorumEngine::new(io, members, hints, timeouts.command);
        let members = &engine.members;
        let deadline = deadline_in(timeouts.connect);
        let connected = members.ask_all(|member| {
            let members = members.clone();
            async move {
                let reply = members.list[member].connected(deadline).await;
                members.record_reachability(member, &reply);
                reply
            }
        });
        members.gather(connected, deadline, "connected").await?;
        Ok(engine)
    }

    fn new(
        io: IoThread,
        members: Vec<Arc<dyn Member>>,
        hints: Arc<ReleaseHints>,
        timeout: Duration,
    ) -> QuorumEngine {
        QuorumEngine {
            members: Arc::new(Members::new(io, members, hints, timeout)),
            ballots: Arc::default(),
            queue_entries: Arc::default(),
        }
    }
}

impl QuorumEngine {
    /// Acquires the lock at a majority of the members.
    pub(crate) async fn elect(
        &self,
        claim: &Claim,
        deadline: Instant,
    ) -> Result<bool, EngineError> {
        let ballot = Ballot::open(&self.members, &self.ballots, claim.clone(), None);
        let run = async move { Ok(ballot.run_election(deadline).await) };
        match self.members.run_on_io_thread(run).await? {
            Outcome::Won(election) => {
                let known = match claim.replicas {
                    0 => true,
                    _ => {
                        let renewed = self.renew(std::slice::from_ref(claim), deadline);
                        renewed.await?.pop().unwrap_or(Ok(false))?
                    }
                };
                if known {
                    election.keep();
                }
                Ok(known)
            }
            Outcome::Lost(_) => Ok(false),
            Outcome::Split(pause, error) => {
                let io = self.members.io;
                io.sleep_until(deadline_in(pause).min(deadline)).await;
                Err(error)
            }
            Outcome::NoQuorum(error) => Err(error),
        }
    }

    async fn acquire(
        &self,
        attempt: &Attempt,
        supervisor: &Arc<dyn ReleaseSupervisor>,
        deadline: Instant,
    ) -> Result<Option<Acquired>, EngineError> {
        let token = attempt.token(Draw::now());
        let awaited = AwaitedAcquire::new(attempt, token, supervisor);
        let elected = self.elect(&attempt.claim(token), deadline).await;
        awaited.replied(elected.map(usize::from))
    }

    async fn cancel(
        &self,
        claim: &Claim,
        _in_flight: bool,
        deadline: Instant,
    ) -> Result<bool, EngineError> {
        if self.ballots.get(claim.token).is_some() {
            return self.release(claim, deadline).await;
        }
        let removed = QueueEntry::remove(&self.members, &self.queue_entries, claim.token);
        let _ = self.members.io.timeout_at(deadline, removed).await;
        Ok(false)
    }

    async fn release(&self, claim: &Claim, deadline: Instant) -> Result<bool, EngineError> {
        let Some(ballot) = self.ballots.get(claim.token) else {
            return Ok(false);
        };
        let mut progress = ballot.withdraw(true).subscribe();
        let certain = progress.wait_for(|progress| {
            progress.released.decided().is_some() || progress.outstanding == 0
        });
        // The withdrawal continues at the other members.
        let _ = self.members.io.timeout_at(deadline, certain).await;
        let released = progress.borrow().released.clone();
        released
            .decided()
            .ok_or_else(|| released.error(&self.members.list, "released", "not ours"))
    }

    async fn drain(&self, deadline: Instant) -> Result<(), EngineError> {
        let drained = async {
            self.ballots.drained().await;
            self.queue_entries.drained().await;
        };
        let _ = self.members.io.timeout_at(deadline, drained).await;
        Ok(())
    }
}

answer_requests! { QuorumEngine: own[acquire enqueue cancel release renew fencing_token drain] }

answer_operations! { QuorumEngine: own[ping views names report reports ask recall take] }

impl Engine for QuorumEngine {
    /// All members that are clusters have the same slots.
    fn shard_of(&self, name: &str) -> Shard {
        let slots = self.members.list.iter().map(|member| member.slot(name));
        Shard {
            server: 0,
            slot: slots.max().unwrap_or_default(),
        }
    }

    fn refuses_downgrade(&self) -> Option<&'static str> {
        Some("a quorum cannot turn an exclusive hold into a shared one")
    }

    fn validate(&self, _: &str, options: &LockOptions) -> Result<(), LockError> {
        // Of n permits at each of N members, up to N·n / (majority of N) could have a majority.
        match options.limit.is_exclusive() || options.limit == Limit::UNLIMITED {
            true => Ok(()),
            false => Err(LockError::Unsupported {
                operation: "permits",
                reason: "the members of a quorum can't count holders together; use one server, or an engine that replicates",
            }),
        }
    }

    fn has_index(&self) -> bool {
        false
    }

    /// A waiter recalls at each member that it reaches.
    fn hears_recalls(&self, _: &str) -> bool {
        let members = self.members.list.iter();
        let hearing = members.filter(|member| member.hears_recalls()).count();
        hearing >= majority(self.members.count())
    }

    fn listen(&self) {
        for member in &self.members.list {
            member.listen();
        }
    }

    fn inspect(
        &self,
        ttl: Duration,
        replicas: u32,
    ) -> Pin<Box<dyn Future<Output = Inspection> + Send + '_>> {
        Box::pin(async move {
            let members = self.members.list.iter();
            let found = join_all(members.map(|member| member.inspect(ttl, replicas))).await;
            Inspection::merge(found, ttl)
        })
    }
}
