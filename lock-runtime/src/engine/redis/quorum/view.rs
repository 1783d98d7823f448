//! Reads who holds a lock and who waits for it, and which locks there are, at all members.

use crate::engine::error::EngineError;
use crate::engine::operations::Reading;
use crate::engine::redis::quorum::QuorumEngine;
use crate::engine::redis::quorum::majority::majority;
use crate::engine::redis::quorum::replies::Replies;
use crate::engine::view::{View, ViewedHolder};
use crate::lock_info::LeaseInfo;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

impl QuorumEngine {
    /// Looks at locks at each member. Fails unless a majority replies; those that don't count as if they did
    /// not know them.
    pub(crate) async fn views(
        &self,
        names: &[Arc<str>],
        most: usize,
        deadline: Instant,
    ) -> Result<Vec<View>, EngineError> {
        let members = &self.members;
        let mut arriving = members.ask_all(|member| {
            let (members, names) = (members.clone(), names.to_owned());
            async move { members.list[member].views(&names, most, deadline).await }
        });
        let mut replies = Replies::new(members.count());
        let mut views: Vec<Vec<View>> = names.iter().map(|_| Vec::new()).collect();
        while let Ok(Some((member, reply))) = members.io.timeout_at(deadline, arriving.recv()).await
        {
            replies.record(member, reply.as_ref().map(|_| true).map_err(Clone::clone));
            for (views, view) in views.iter_mut().zip(reply.into_iter().flatten()) {
                views.push(view);
            }
        }
        let merged = |views| merged(views, members.count(), most);
        match replies.decided() {
            Some(_) => Ok(views.into_iter().map(merged).collect()),
            None => Err(replies.error(&members.list, "answers", "")),
        }
    }

    /// Returns the names that any member knows. Fails unless a majority replies.
    pub(crate) async fn names(
        &self,
        prefix: &str,
        most: usize,
        reading: Reading,
    ) -> Result<Vec<Arc<str>>, EngineError> {
        let members = &self.members;
        let replies = members.ask_all(|member| {
            let (members, prefix) = (members.clone(), prefix.to_owned());
            async move { members.list[member].names(&prefix, most, reading).await }
        });
        let names = members.gather(replies, reading.until, "answers").await?;
        let names = BTreeSet::from_iter(names.into_iter().flatten());
        Ok(names.into_iter().take(most).collect())
    }
}

/// Returns the view of the members together: those first that most of them know.
fn merged(views: Vec<View>, members: usize, most: usize) -> View {
    let mut leases: HashMap<Box<str>, Vec<LeaseInfo>> = HashMap::new();
    let mut places: HashMap<Box<str>, usize> = HashMap::new();
    let mut waiting = 0;
    for view in views {
        waiting = waiting.max(view.waiting);
        for holder in view.holders {
            leases.entry(holder.token).or_default().push(holder.lease);
        }
        for (place, token) in view.waiters.into_iter().enumerate() {
            let best = places.entry(token).or_insert(place);
            *best = place.min(*best);
        }
    }
    let holders = leases.into_iter().map(|(token, leases)| ViewedHolder {
        token,
        votes: Some((leases.len(), members)),
        lease: lease_at_majority(leases, members),
    });
    let mut holders: Vec<_> = holders.collect();
    holders
        .sort_unstable_by(|one, other| (other.votes, &one.token).cmp(&(one.votes, &other.token)));
    let mut waiters: Vec<_> = places.into_iter().collect();
    waiters.sort_unstable_by(|(one, place), (other, its)| (place, one).cmp(&(its, other)));
    View {
        holders,
        waiting: waiting.max(waiters.len() as u64),
        waiters: waiters.into_iter().take(most).map(|it| it.0).collect(),
    }
}

/// Returns for how long a majority still has the lock; with fewer votes, the last one.
fn lease_at_majority(mut leases: Vec<LeaseInfo>, members: usize) -> LeaseInfo {
    let left = |lease: &LeaseInfo| match lease {
        LeaseInfo::Ends(left) => *left,
        LeaseInfo::Never | LeaseInfo::WithSession => Duration::MAX,
    };
    leases.sort_unstable_by_key(|lease| std::cmp::Reverse(left(lease)));
    let at = majority(members).min(leases.len()).saturating_sub(1);
    leases
        .get(at)
        .copied()
        .unwrap_or(LeaseInfo::Ends(Duration::ZERO))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(holders: &[(&str, u64)], waiters: &[&str]) -> View {
        let holders = holders.iter().map(|(token, seconds)| ViewedHolder {
            token: (*token).into(),
            lease: LeaseInfo::Ends(Duration::from_secs(*seconds)),
            votes: None,
        });
        View {
            holders: holders.collect(),
            waiters: waiters.iter().map(|token| (*token).into()).collect(),
            waiting: waiters.len() as u64,
        }
    }

    #[test]
    fn a_majority_has_the_rest_of_the_lease() {
        let views = vec![
            seen(&[("a", 9)], &["x", "y"]),
            seen(&[("a", 5)], &["y"]),
            seen(&[("b", 7)], &["z", "x"]),
        ];
        let merged = merged(views, 3, 2);
        let holders: Vec<_> = merged
            .holders
            .iter()
            .map(|it| (&*it.token, it.votes))
            .collect();
        assert_eq!(holders, [("a", Some((2, 3))), ("b", Some((1, 3)))]);
        assert_eq!(
            merged.holders[0].lease,
            LeaseInfo::Ends(Duration::from_secs(5))
        );
        assert_eq!(
            merged.holders[1].lease,
            LeaseInfo::Ends(Duration::from_secs(7))
        );
        let waiters: Vec<_> = merged.waiters.iter().map(|token| &**token).collect();
        assert_eq!((waiters, merged.waiting), (vec!["x", "y"], 3));
    }
}
