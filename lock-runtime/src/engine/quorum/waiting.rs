//! Waiting: a place in the queues of all members, and an election when the lock can be had.

use crate::engine::error::EngineError;
use crate::engine::member::{Look, Vote};
use crate::engine::quorum::Quorum;
use crate::engine::quorum::ballot::Ballot;
use crate::engine::quorum::election::{Outcome, count};
use crate::engine::quorum::votes::{Verdict, Votes};
use crate::engine::request::{Claim, ServerTime, Standing, Waiting};
use crate::engine::token::Token;
use crate::util::backoff::fraction;
use std::time::Duration;
use tokio::time::Instant;

/// How long claims that were in each other's way wait before they ask again, about.
const SPLIT: Duration = Duration::from_millis(10);

impl Quorum {
    /// Takes a place in the queues of all members, and the lock if it is free.
    pub(crate) async fn stand(
        &self,
        place: &Claim,
        until: Instant,
    ) -> Result<Standing, EngineError> {
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

/// A claim that waits is to ask again when so much time has passed.
fn again_in(left: Duration) -> Waiting {
    Waiting {
        at: ServerTime(Duration::ZERO),
        holder_left: left,
        ahead: 0,
        others: true,
    }
}
