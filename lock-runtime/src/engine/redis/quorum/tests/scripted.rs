//! A scripted member.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::operations::Taken;
use crate::engine::redis::quorum::member::Member;
use crate::engine::redis::quorum::requests::VoteRequests;
use crate::engine::redis::quorum::tests::{TTL, virtual_io};
use crate::engine::redis::vote::{QueueObservation, Vote, VoteQueue};
use crate::engine::request::{Claim, EngineFuture};
use crate::engine::requests::Operations;
use crate::engine::token::Token;
use crate::engine::view::{View, ViewedHolder};
use crate::lock_info::LeaseInfo;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::oneshot;
use tokio::time::Instant;

/// A member that carries out requests in order, unless it is paused or down.
pub(crate) struct Scripted {
    pub(crate) address: String,
    pub(crate) state: Mutex<State>,
}

type Work = Box<dyn FnOnce(&mut State) + Send>;

#[derive(Default)]
pub(crate) struct State {
    pub(crate) down: bool,
    pub(crate) paused: bool,
    /// The requests that arrived while it was paused.
    pub(crate) pending: Vec<Work>,
    pub(crate) locks: HashMap<Arc<str>, Token>,
    pub(crate) queue: Vec<Token>,
    pub(crate) counter: u64,
    /// The holder releases the lock right after the next vote that is refused.
    pub(crate) releases_after_refusal: bool,
    pub(crate) votes: usize,
}

impl Scripted {
    fn request<T: Send + 'static>(
        &self,
        deadline: Instant,
        work: impl FnOnce(&mut State) -> T + Send + 'static,
    ) -> EngineFuture<'static, T> {
        let (sender, reply) = oneshot::channel();
        let work = move |state: &mut State| drop(sender.send(work(state)));
        let mut state = self.state();
        let error = |kind| EngineError::new(kind, "scripted");
        if state.down {
            return Box::pin(std::future::ready(Err(error(
                EngineErrorKind::NotConnected,
            ))));
        }
        match state.paused {
            true => state.pending.push(Box::new(work)),
            false => work(&mut state),
        }
        Box::pin(async move {
            match virtual_io().timeout_at(deadline, reply).await {
                Ok(Ok(reply)) => Ok(reply),
                _ => Err(error(EngineErrorKind::Indeterminate)),
            }
        })
    }

    pub(crate) fn pause(&self) {
        self.state().paused = true;
    }

    pub(crate) fn resume(&self) {
        let mut state = self.state();
        state.paused = false;
        for work in std::mem::take(&mut state.pending) {
            work(&mut state);
        }
    }

    pub(crate) fn is_down(&self, down: bool) {
        self.state().down = down;
    }

    /// Drops all locks, like a restart without persistence.
    pub(crate) fn forget(&self) {
        self.state().locks.clear();
    }

    pub(crate) fn give(&self, claim: &Claim) {
        self.state().locks.insert(claim.name.clone(), claim.token);
    }

    pub(crate) fn has(&self, claim: &Claim) -> bool {
        self.state().locks.get(&claim.name) == Some(&claim.token)
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

impl Operations for Scripted {
    fn ping(&self, deadline: Instant) -> EngineFuture<'_, ()> {
        self.request(deadline, |_| ())
    }

    fn views<'a>(
        &'a self,
        names: &'a [Arc<str>],
        most: usize,
        deadline: Instant,
    ) -> EngineFuture<'a, Vec<View>> {
        let names = names.to_owned();
        self.request(deadline, move |state| {
            let text = |token: &Token| Box::from(token.encode(&mut [0; 37]));
            let view = |name: &Arc<str>| {
                let holder = state.locks.get(name).map(|token| ViewedHolder {
                    token: text(token),
                    lease: LeaseInfo::Never,
                    votes: None,
                });
                View {
                    holders: holder.into_iter().collect(),
                    waiters: state.queue.iter().take(most).map(text).collect(),
                    waiting: state.queue.len() as u64,
                }
            };
            names.iter().map(view).collect()
        })
    }

    fn take<'a>(
        &'a self,
        name: &'a str,
        token: &'a str,
        at_least: u64,
        deadline: Instant,
    ) -> EngineFuture<'a, Taken> {
        let (name, token) = (name.to_owned(), Token::parse(token));
        self.request(deadline, move |state| {
            let held = token.is_some() && state.locks.get(&*name).copied() == token;
            if held {
                state.locks.remove(&*name);
            }
            state.counter = at_least.max(state.counter + 1);
            Taken {
                held,
                pinned: false,
                fencing_token: state.counter,
            }
        })
    }
}

impl VoteRequests for Scripted {
    fn vote<'a>(
        &'a self,
        claim: &'a Claim,
        queue: VoteQueue,
        deadline: Instant,
    ) -> EngineFuture<'a, Vote> {
        let claim = claim.clone();
        self.request(deadline, move |state| {
            state.votes += 1;
            match state.locks.get(&claim.name) {
                Some(token) if *token != claim.token => {
                    let holder = token.encode(&mut [0; 37]).as_bytes().into();
                    if state.releases_after_refusal {
                        state.locks.remove(&claim.name);
                    }
                    Vote::Held { holder, ttl: TTL }
                }
                _ => {
                    state.locks.insert(claim.name, claim.token);
                    if let VoteQueue::Waits(waits) = queue {
                        state.queue.retain(|token| *token != waits);
                    }
                    Vote::Granted
                }
            }
        })
    }

    fn observe<'a>(
        &'a self,
        entry: &'a Claim,
        deadline: Instant,
    ) -> EngineFuture<'a, QueueObservation> {
        let entry = entry.clone();
        self.request(deadline, move |state| {
            if !state.queue.contains(&entry.token) {
                state.queue.push(entry.token);
            }
            let ahead = state.queue.iter().position(|token| *token == entry.token);
            let holder = state.locks.get(&entry.name);
            QueueObservation {
                holder: holder.map(|by| (by.encode(&mut [0; 37]).as_bytes().into(), TTL)),
                ahead: ahead.unwrap() as u64,
                others: state.queue.len() > 1,
            }
        })
    }

    fn leave_queue<'a>(&'a self, entry: &'a Claim, deadline: Instant) -> EngineFuture<'a, ()> {
        let token = entry.token;
        self.request(deadline, move |state| state.queue.retain(|it| *it != token))
    }

    fn withdraw<'a>(
        &'a self,
        claim: &'a Claim,
        _: bool,
        deadline: Instant,
    ) -> EngineFuture<'a, bool> {
        let claim = claim.clone();
        self.request(deadline, move |state| {
            let ours = state.locks.get(&claim.name) == Some(&claim.token);
            if ours {
                state.locks.remove(&claim.name);
            }
            ours
        })
    }

    fn renew<'a>(
        &'a self,
        claims: &'a [Claim],
        deadline: Instant,
    ) -> EngineFuture<'a, Vec<Result<bool, EngineError>>> {
        let claims = claims.to_vec();
        self.request(deadline, move |state| {
            let ours = |claim: &Claim| state.locks.get(&claim.name) == Some(&claim.token);
            claims.iter().map(|claim| Ok(ours(claim))).collect()
        })
    }

    fn fencing_token<'a>(
        &'a self,
        claim: &'a Claim,
        deadline: Instant,
    ) -> EngineFuture<'a, Option<u64>> {
        let claim = claim.clone();
        self.request(deadline, move |state| {
            let ours = state.locks.get(&claim.name) == Some(&claim.token);
            ours.then(|| {
                state.counter += 1;
                state.counter
            })
        })
    }

    fn raise_fencing_token<'a>(
        &'a self,
        claim: &'a Claim,
        token: u64,
        deadline: Instant,
    ) -> EngineFuture<'a, bool> {
        let claim = claim.clone();
        self.request(deadline, move |state| {
            let ours = state.locks.get(&claim.name) == Some(&claim.token);
            if ours {
                state.counter = state.counter.max(token);
            }
            ours
        })
    }
}

impl Member for Scripted {
    fn address(&self) -> &str {
        &self.address
    }
}
