//! What members tell those who wait.
//!
//! A member tells the first in its queue when a lock is freed there. A lock can be had when a majority
//! of those members that answer at present has told so; what one member tells makes the claim ask
//! somewhat sooner.

use crate::engine::event::{Ear, News};
use crate::engine::quorum::votes::majority;
use crate::engine::token::Token;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(crate) struct Hints {
    ear: Ear,
    /// Whether each member has answered lately.
    present: Vec<AtomicBool>,
    /// For each claim that waits, which members have told it since it asked.
    told: Mutex<HashMap<Token, Vec<bool>>>,
}

impl Hints {
    pub(crate) fn new(members: usize, ear: Ear) -> Arc<Hints> {
        Arc::new(Hints {
            ear,
            present: (0..members).map(|_| AtomicBool::new(true)).collect(),
            told: Mutex::default(),
        })
    }

    /// Where that member's news goes.
    pub(crate) fn ear(self: &Arc<Self>, member: usize) -> Ear {
        let hints = self.clone();
        Arc::new(move |news| {
            let news = match news {
                News::First(place) => hints.tell(member, place),
                // It may be free at that member only: soon enough is when others have been elected.
                News::Free(place) => Some(News::First(place)),
                // The others tell as well, and it is asked again before long.
                News::Resumed => None,
                // No member of a quorum grants a lock by itself.
                News::Granted(_) => None,
                news => Some(news),
            };
            if let Some(news) = news {
                (hints.ear)(news);
            }
        })
    }

    pub(crate) fn is_present(&self, member: usize, present: bool) {
        self.present[member].store(present, Ordering::Relaxed);
    }

    /// The claim asks now. Whether it has been told by enough members before.
    pub(crate) fn asks(&self, place: Token) -> bool {
        let none = vec![false; self.present.len()];
        let told = self.told().insert(place, none);
        told.is_some_and(|told| count(&told) >= self.enough())
    }

    /// The claim waits no more.
    pub(crate) fn forget(&self, place: Token) {
        self.told().remove(&place);
    }

    fn tell(&self, member: usize, place: Token) -> Option<News> {
        let mut told = self.told();
        let told = told.get_mut(&place)?;
        if std::mem::replace(&mut told[member], true) {
            return None;
        }
        match count(told) {
            all if all == self.enough() => Some(News::Free(place)),
            1 => Some(News::First(place)),
            _ => None,
        }
    }

    fn enough(&self) -> usize {
        let present = |present: &&AtomicBool| present.load(Ordering::Relaxed);
        majority(self.present.iter().filter(present).count())
    }

    fn told(&self) -> MutexGuard<'_, HashMap<Token, Vec<bool>>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn count(told: &[bool]) -> usize {
    told.iter().filter(|told| **told).count()
}
