//! A leader of etcd that was frozen and resumes: it has leases revoked that others have kept alive meanwhile.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::etcd_gateway::ask;
use crate::time::millis;

/// Revokes each lease when its length has passed since it was first seen, kept alive or not, until this is
/// dropped. No leader can revoke one sooner.
pub struct StaleLeader {
    stops: Arc<AtomicBool>,
    revoked: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl StaleLeader {
    /// Begins at the member with that port.
    pub fn start(port: u16) -> Self {
        let (stops, revoked) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let (of_thread, count) = (stops.clone(), revoked.clone());
        let thread = thread::spawn(move || {
            let mut seen = HashMap::new();
            while !of_thread.load(Ordering::Relaxed) {
                // A member that is down is asked again.
                count.fetch_add(revoke(port, &mut seen).unwrap_or(0), Ordering::Relaxed);
                thread::sleep(millis(20));
            }
        });
        Self {
            stops,
            revoked,
            thread: Some(thread),
        }
    }

    /// Returns how many leases were revoked that had been kept alive.
    pub fn revoked(&self) -> usize {
        self.revoked.load(Ordering::Relaxed)
    }
}

impl Drop for StaleLeader {
    fn drop(&mut self) {
        self.stops.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Revokes the leases that are due. `seen` has when each was first seen, and its length. Returns how many of
/// them had been kept alive.
fn revoke(port: u16, seen: &mut HashMap<String, (Instant, Duration)>) -> Option<usize> {
    let list = ask(port, "lease/leases", "{}").ok()?;
    let now = Instant::now();
    let leases: Vec<_> = list.split("\"ID\":\"").skip(1).collect();
    let leases: Vec<_> = leases
        .iter()
        .filter_map(|rest| rest.split('"').next())
        .collect();
    seen.retain(|id, _| leases.contains(&&**id));
    let mut kept_alive = 0;
    for id in leases {
        let body = format!("{{\"ID\":\"{id}\"}}");
        let Some((since, length)) = seen.get(id) else {
            let state = ask(port, "lease/timetolive", &body).ok()?;
            if let Some(length) = number(&state, "grantedTTL") {
                seen.insert(id.to_owned(), (now, Duration::from_secs(length)));
            }
            continue;
        };
        if since.elapsed() < *length {
            continue;
        }
        let state = ask(port, "lease/timetolive", &body).ok()?;
        let lives = number(&state, "TTL").is_some_and(|left| left > 0);
        if ask(port, "lease/revoke", &body).is_ok() && lives {
            kept_alive += 1;
        }
    }
    Some(kept_alive)
}

/// Returns the number in that field of an answer in JSON.
pub fn number(answer: &str, field: &str) -> Option<u64> {
    let (_, rest) = answer.split_once(&format!("\"{field}\":\""))?;
    rest.split('"').next()?.parse().ok()
}
