//! What has been asked of the members for one token, until nothing of it is left there.

use crate::engine::error::{EngineError, Fault};
use crate::engine::member::Vote;
use crate::engine::quorum::member_states::Footprint;
use crate::engine::quorum::members::Members;
use crate::engine::quorum::queue_entry::Place;
use crate::engine::quorum::tally::Tally;
use crate::engine::request::{Claim, OUTAGE};
use crate::util::time::after;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use tokio::sync::watch;
use tokio::time::Instant;

pub(crate) struct Ballot {
    pub(crate) members: Arc<Members>,
    pub(crate) claim: Claim,
    /// Where the claim stands in the members' queues.
    place: Option<Arc<Place>>,
    footprint: Footprint,
    cleared: OnceLock<Arc<watch::Sender<Cleared>>>,
}

/// How far clearing away has come.
pub(crate) struct Cleared {
    /// Which members had the token.
    pub(crate) found: Tally,
    pub(crate) missing: usize,
}

impl Ballot {
    pub(crate) fn open(
        members: &Arc<Members>,
        claim: Claim,
        place: Option<Arc<Place>>,
    ) -> Arc<Ballot> {
        let token = claim.token;
        let ballot = Arc::new(Ballot {
            footprint: Footprint::new(members),
            members: members.clone(),
            claim,
            place,
            cleared: OnceLock::new(),
        });
        members.enter(token, &ballot);
        ballot
    }

    /// Asks a member for its vote. What it doesn't answer it may have done all the same.
    pub(crate) async fn ask(&self, member: usize, until: Instant) -> Vote {
        let Some(mut there) = self.footprint.enter(member).await else {
            return Vote::Failed(EngineError::new(Fault::Down, "called off"));
        };
        // It leaves a queue that it has entered, not one that it is about to enter.
        let stands = match &self.place {
            Some(place) => Some(place.footprint.leave(member).await),
            None => None,
        };
        let place = self.place.as_ref().map(|place| place.claim.token);
        let until = until.min(self.members.patience(self.claim.ttl));
        let answer = self.members.all[member].vote(&self.claim, place, until);
        let answer = answer.await;
        self.members.note(member, &answer);
        match &answer {
            Ok(Vote::Granted) => {
                *there = true;
                if let Some(mut stands) = stands {
                    *stands = false;
                }
            }
            Err(error) => *there |= error.fault == Fault::Unanswered,
            Ok(_) => {}
        }
        answer.unwrap_or_else(Vote::Failed)
    }

    /// Frees whatever the token may have, again and again until each member has confirmed it or the
    /// ttl has passed. `tell`: it was held, so that those who wait hear of it.
    pub(crate) fn clear(self: &Arc<Self>, tell: bool) -> &watch::Sender<Cleared> {
        self.footprint.close();
        self.cleared.get_or_init(|| {
            self.members.clearing_begins();
            let count = self.members.count();
            let cleared = Arc::new(watch::Sender::new(Cleared {
                found: Tally::new(count),
                missing: count,
            }));
            let (ballot, clearing) = (self.clone(), cleared.clone());
            self.members.io.spawn(async move {
                for member in 0..count {
                    ballot.clear_at(member, tell, &clearing);
                }
            });
            cleared
        })
    }

    fn clear_at(
        self: &Arc<Self>,
        member: usize,
        tell: bool,
        cleared: &Arc<watch::Sender<Cleared>>,
    ) {
        if self.footprint.is_clear(member) {
            return self.confirm(cleared, member, Ok(false));
        }
        let (ballot, cleared) = (self.clone(), cleared.clone());
        let until = after(self.claim.ttl.max(OUTAGE));
        self.members.io.spawn(async move {
            let found = ballot.free(member, tell, until, &cleared).await;
            ballot.confirm(&cleared, member, found);
        });
    }

    async fn free(
        &self,
        member: usize,
        tell: bool,
        until: Instant,
        cleared: &watch::Sender<Cleared>,
    ) -> Result<bool, EngineError> {
        let mut there = self.footprint.leave(member).await;
        if !*there {
            return Ok(false);
        }
        let free = || {
            let patience = self.members.patience(self.claim.ttl);
            self.members.all[member].free(&self.claim, tell, patience)
        };
        let repeated = AtomicBool::new(false);
        let note = |error: &EngineError| {
            repeated.fetch_or(error.fault == Fault::Unanswered, Relaxed);
            let failed = Err(error.clone());
            cleared.send_if_modified(|cleared| {
                cleared.found.enter(member, failed);
                false
            });
        };
        let found = self.members.persist(until, free, note).await?;
        *there = false;
        // What an earlier try has freed, a later one can't find.
        Ok(found || repeated.into_inner())
    }

    fn confirm(
        &self,
        cleared: &watch::Sender<Cleared>,
        member: usize,
        found: Result<bool, EngineError>,
    ) {
        let mut done = false;
        cleared.send_if_modified(|cleared| {
            let before = cleared.found.decided();
            cleared.found.enter(member, found);
            cleared.missing -= 1;
            done = cleared.missing == 0;
            done || cleared.found.decided() != before
        });
        if done {
            self.members.cleared(self.claim.token);
        }
    }
}
