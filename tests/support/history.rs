//! The holds that processes could prove: recorded while they happen, and checked afterwards.

use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lock_runtime::LockGuard;

use super::dice::Dice;
use super::worker::tell;

/// A span for which a lock was provably held, by the wall clock that all processes share.
#[derive(Clone, Debug)]
pub struct Belief {
    pub key: u64,
    pub from: u128,
    pub until: u128,
    pub fence: Option<Fence>,
    pub worker: usize,
}

/// A fencing token, requested at `asked` and received by `had`.
#[derive(Clone, Debug)]
pub struct Fence {
    pub asked: u128,
    pub had: u128,
    pub token: u64,
}

fn now() -> u128 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_nanos()
}

/// Holds a lock for a while, and repeatedly reports the span for which it provably held it, since the process
/// may be killed at any point. It may also be stopped at any point, so each check of the guard lies between
/// two readings of the clock.
pub async fn believe(key: u64, guard: &LockGuard, dice: &mut Dice, fenced: bool) {
    if !guard.is_valid() {
        return;
    }
    let mut belief = Belief {
        key,
        from: now(),
        until: 0,
        fence: None,
        worker: 0,
    };
    belief.until = belief.from;
    if fenced {
        let asked = now();
        if let Ok(token) = guard.fencing_token().await {
            let had = now();
            belief.fence = Some(Fence { asked, had, token });
        }
    }
    for _ in 0..=dice.roll(5) {
        belief.tell();
        tokio::time::sleep(Duration::from_micros(dice.roll(8000))).await;
        let look = now();
        if !guard.is_valid() {
            return;
        }
        belief.until = look;
    }
    belief.tell();
}

impl Belief {
    fn tell(&self) {
        let fence = self.fence.clone().unwrap_or(Fence {
            asked: 0,
            had: 0,
            token: 0,
        });
        let (key, from, until) = (self.key, self.from, self.until);
        let Fence { asked, had, token } = fence;
        tell(format!("held {key} {from} {until} {asked} {had} {token} ."));
    }

    /// Parses the event of a worker; returns `None` if the event is incomplete or another one.
    pub fn read(event: &str, worker: usize) -> Option<Self> {
        let words = event.strip_prefix("held ")?.strip_suffix(" .")?;
        let mut words = words.split(' ');
        let mut belief = Self {
            key: next(&mut words),
            from: next(&mut words),
            until: next(&mut words),
            fence: None,
            worker,
        };
        let fence = Fence {
            asked: next(&mut words),
            had: next(&mut words),
            token: next(&mut words),
        };
        belief.fence = (fence.token > 0).then_some(fence);
        Some(belief)
    }
}

fn next<'a, T: FromStr<Err: std::fmt::Debug>>(words: &mut impl Iterator<Item = &'a str>) -> T {
    words.next().unwrap().parse().unwrap()
}

/// Returns the last report of each hold, in order of key and time.
pub fn history(mut told: Vec<Belief>) -> Vec<Belief> {
    told.sort_by_key(|belief| (belief.key, belief.from, belief.worker, belief.until));
    // The last report of a hold covers the earlier ones.
    told.reverse();
    told.dedup_by_key(|belief| (belief.key, belief.from, belief.worker));
    told.reverse();
    told
}

/// Returns the pairs that held one lock at the same time.
pub fn overlaps(history: &[Belief]) -> Vec<String> {
    let mut found = Vec::new();
    let mut last: Option<&Belief> = None;
    for belief in history {
        let same = last.filter(|last| last.key == belief.key);
        if let Some(last) = same.filter(|last| belief.from < last.until) {
            found.push(format!("{last:?} and {belief:?}"));
        }
        // The next hold may still overlap the one that lasts longer.
        if same.is_none_or(|last| last.until < belief.until) {
            last = Some(belief);
        }
    }
    found
}

/// Returns the pairs whose tokens did not increase although the first was received before the second was
/// requested.
pub fn disorder(history: &[Belief]) -> Vec<String> {
    let mut found = Vec::new();
    for same in history.chunk_by(|a, b| a.key == b.key) {
        let fenced = || same.iter().filter(|belief| belief.fence.is_some());
        let fence = |belief: &Belief| belief.fence.clone().unwrap();
        let mut asked: Vec<_> = fenced().collect();
        let mut had = asked.clone();
        asked.sort_by_key(|belief| fence(belief).asked);
        had.sort_by_key(|belief| fence(belief).had);
        let mut had = had.into_iter().peekable();
        let mut greatest: Option<&Belief> = None;
        for belief in asked {
            while let Some(before) = had.next_if(|it| fence(it).had < fence(belief).asked) {
                if greatest.is_none_or(|greatest| fence(greatest).token < fence(before).token) {
                    greatest = Some(before);
                }
            }
            if let Some(before) = greatest
                && fence(before).token >= fence(belief).token
            {
                found.push(format!("{before:?} before {belief:?}"));
            }
        }
    }
    found
}
