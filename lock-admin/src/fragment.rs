//! The parts of the page that change, each with the number of its last change.

use crate::lock_table::row;
use crate::markup::Clock;
use crate::page;
use crate::state::State;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

/// All parts, as one look shows them.
pub(crate) struct Fragments {
    /// Distinguishes those of one process from those of another.
    pub(crate) source: u32,
    /// The number of the look.
    pub(crate) number: u64,
    pub(crate) parts: Vec<Fragment>,
    /// The ids of the rows in their order, and the number of its last change.
    pub(crate) order: Vec<String>,
    pub(crate) reordered: u64,
}

/// An element of the page.
#[derive(Clone)]
pub(crate) struct Fragment {
    pub(crate) id: Arc<str>,
    pub(crate) html: Arc<str>,
    pub(crate) changed: u64,
}

impl Fragments {
    /// Renders all parts. Those that are as before keep their number.
    pub(crate) fn of(state: &State, before: Option<&Fragments>) -> Fragments {
        let number = before.map_or(1, |it| it.number + 1);
        let known = before.into_iter().flat_map(|it| &it.parts);
        let known: HashMap<&str, &Fragment> = known.map(|it| (&*it.id, it)).collect();
        let sections = page::sections(state, Clock::Script).into_iter();
        let sections = sections.map(|(id, html)| (id.to_owned(), html));
        let clock = state.clock_of_locks(Clock::Script);
        let rows = state.locks.iter();
        let rows = rows.map(|lock| (lock.id.clone(), row(lock, clock)));
        let parts = sections.chain(rows).map(|(id, html)| {
            let html = html.into_string();
            match known.get(&*id) {
                Some(same) if *same.html == *html => (*same).clone(),
                _ => Fragment {
                    id: id.into(),
                    html: html.into(),
                    changed: number,
                },
            }
        });
        let parts = parts.collect();
        let order: Vec<_> = state.locks.iter().map(|lock| lock.id.clone()).collect();
        let reordered = before.filter(|it| it.order == order);
        Fragments {
            source: before.map_or_else(random, |it| it.source),
            number,
            parts,
            order,
            reordered: reordered.map_or(number, |it| it.reordered),
        }
    }

    /// Returns what names this look.
    pub(crate) fn name(&self) -> String {
        format!("{:08x}-{}", self.source, self.number)
    }

    /// Returns the number of the look with that name; 0 if it is another process'.
    pub(crate) fn number_of(&self, name: &str) -> u64 {
        let (source, number) = name.split_once('-').unwrap_or_default();
        let number = number.parse().unwrap_or(0);
        let is_own = source == format!("{:08x}", self.source) && number <= self.number;
        if is_own { number } else { 0 }
    }

    /// Returns the event with all that has changed after the look with that number.
    pub(crate) fn since(&self, number: u64, now: u64) -> String {
        let changed = self.parts.iter().filter(|it| it.changed > number);
        let html: Vec<_> = changed.map(|it| (&*it.id, &*it.html)).collect();
        let mut event = serde_json::json!({ "now": now, "html": html });
        if self.reordered > number {
            event["order"] = serde_json::json!(self.order);
        }
        format!("id: {}\ndata: {event}\n\n", self.name())
    }
}

fn random() -> u32 {
    RandomState::new().hash_one(()) as u32
}
