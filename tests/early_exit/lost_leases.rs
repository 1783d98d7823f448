//! Every fault on every runtime: a body whose lock is lost is dropped by its deadline, and a fault that heals
//! before the deadline cancels nothing.

use std::sync::Arc;
use std::thread::{self, JoinHandle, ScopedJoinHandle};
use std::time::{Duration, Instant};

use lock_runtime::{LockError, LostCause};
use tokio::sync::{Barrier, watch};

use super::body::{Body, Journal, Notes};
use super::fault::{Fault, Servers};
use super::runtime::Runtime;
use lock_test_support::manager::connected;
use lock_test_support::server::Server;
use lock_test_support::time::{NOISE, Timed, eventually, millis};

pub const TTL: Duration = millis(1500);
/// How long the deadline is before the expiry on the server.
const MARGIN: Duration = millis(1500 / 100 + 2);
/// The longest time between two renewals: a third of the TTL, a tenth more, and the delay for batching with
/// others.
const NEXT_RENEWAL: Duration = millis(1500 * 11 / 30 + 1500 / 100);

/// One body on one runtime, in the middle of one fault.
struct Cell {
    runtime: Runtime,
    body: Body,
    key: String,
    journal: Journal,
}

/// The result of a body, and when its caller got it.
struct End {
    result: Result<(), LockError>,
    at: Instant,
}

impl Cell {
    fn all() -> Vec<Self> {
        let mut cells = Vec::new();
        for runtime in Runtime::ALL {
            for body in Body::ALL {
                let key = format!("{runtime:?}:{body:?}");
                let journal = Journal::default();
                cells.push(Self {
                    runtime,
                    body,
                    key,
                    journal,
                });
            }
        }
        cells
    }

    fn run(
        &self,
        url: String,
        start: Arc<Barrier>,
        over: watch::Receiver<bool>,
    ) -> JoinHandle<End> {
        let (runtime, body) = (self.runtime, self.body);
        let (key, journal) = (self.key.clone(), self.journal.clone());
        let call = async move {
            let locks = connected(url).await;
            start.wait().await;
            let result = body.hold(locks, key, journal, over).await;
            let at = Instant::now();
            End { result, at }
        };
        thread::spawn(move || runtime.run(call))
    }
}

/// Waits until all locks have just been renewed. Returns the latest expiry of each.
fn just_renewed(server: &Server, keys: &[String]) -> Vec<Instant> {
    let script = "for i, key in ipairs(KEYS) do KEYS[i] = redis.call('PTTL', key) end return KEYS";
    let count = keys.len().to_string();
    let mut words = vec!["EVAL", script, &count];
    words.extend(keys.iter().map(String::as_str));
    let mut were_low = vec![false; keys.len()];
    let mut expiries = Vec::new();
    eventually("all locks are renewed at nearly the same time", || {
        let left: Vec<u64> = server.ask(&words).unwrap();
        let now = Instant::now();
        for (was_low, left) in were_low.iter_mut().zip(&left) {
            *was_low |= millis(*left) < TTL * 3 / 4;
        }
        // Late enough that no reply to the renewal is still in flight.
        let fresh = |left: &u64| (TTL * 5 / 8..TTL - millis(40)).contains(&millis(*left));
        expiries = left.iter().map(|left| now + millis(left + 1)).collect();
        were_low.iter().all(|low| *low) && left.iter().all(fresh)
    });
    expiries
}

/// Injects the fault while six bodies run. Returns a verdict for each.
fn play(fault: Fault, heals: bool) -> Vec<Verdict> {
    let mut servers = Servers::start();
    let cells = Cell::all();
    let (over, is_over) = watch::channel(false);
    // All start together, so that they are renewed at nearly the same time.
    let start = Arc::new(Barrier::new(cells.len()));
    let run = |cell: &Cell| cell.run(servers.proxy.url(), start.clone(), is_over.clone());
    let calls: Vec<_> = cells.iter().map(run).collect();
    let key = |cell: &Cell| format!("lock:{}", cell.key);
    let keys: Vec<String> = cells.iter().map(key).collect();
    let expiries = just_renewed(&servers.server, &keys);
    fault.strike(&mut servers, &keys);
    if heals {
        thread::sleep(TTL / 4);
        fault.heal(&mut servers, &keys);
        thread::sleep(TTL * 5 / 4);
        over.send(true).unwrap();
    }
    eventually(&format!("{fault:?} is over"), || {
        calls.iter().all(JoinHandle::is_finished)
    });
    if !heals {
        fault.heal(&mut servers, &keys);
    }
    let ends = calls.into_iter().map(|call| call.join().unwrap());
    let judge = |((cell, end), expiry): ((&Cell, End), _)| Verdict {
        cell: format!("{fault:?}, {:?}, {:?}", cell.runtime, cell.body),
        late: match heals {
            true => end.result.map(|()| 0).map_err(|error| error.to_string()),
            false => lateness(fault, cell, end, expiry),
        },
    };
    cells.iter().zip(ends).zip(expiries).map(judge).collect()
}

struct Verdict {
    cell: String,
    /// How many milliseconds late the body was canceled, or the error.
    late: Result<i64, String>,
}

/// Returns how late the body was canceled, in milliseconds; `expiry` is when the lock would have expired on
/// the server.
fn lateness(fault: Fault, cell: &Cell, end: End, expiry: Instant) -> Result<i64, String> {
    let Notes {
        last_step,
        deadline,
        dropped,
    } = *cell.journal.notes();
    let cause = match end.result {
        Err(LockError::Lost { cause, .. }) => cause,
        other => return Err(format!("{other:?} instead of its loss")),
    };
    let known = match fault.takes_the_key() {
        true => LostCause::NotOwner,
        false => LostCause::Expired,
    };
    if cause != known {
        return Err(format!("lost because {cause:?}"));
    }
    let (Some(last_step), Some(deadline), Some(dropped)) = (last_step, deadline, dropped) else {
        return Err("the body was not dropped".to_owned());
    };
    if last_step > dropped || dropped > end.at {
        return Err("the caller got the error before the body was dropped".to_owned());
    }
    // Exact: this depends on the guard alone, not on the machine's load.
    if deadline + MARGIN > expiry {
        return Err(format!(
            "a deadline {:?} too late",
            deadline + MARGIN - expiry
        ));
    }
    let due = match fault.takes_the_key() {
        true => expiry - TTL + NEXT_RENEWAL,
        false => expiry - MARGIN,
    };
    if cell.body == Body::Walks && !fault.takes_the_key() && dropped < deadline {
        return Err(format!("canceled {:?} too early", deadline - dropped));
    }
    let late = dropped.saturating_duration_since(due).as_millis() as i64;
    let early = due.saturating_duration_since(dropped).as_millis() as i64;
    Ok(late - early)
}

type Plays<'a> = Vec<ScopedJoinHandle<'a, Vec<Verdict>>>;

#[test]
fn body_ends_by_its_deadline_on_every_fault_and_runtime() {
    let _timed = Timed::start();
    let (lost, healed) = thread::scope(|scope| {
        let start = |heals: bool| {
            let struck = Fault::ALL.into_iter();
            let struck = struck.filter(move |fault| !heals || !fault.takes_the_key());
            let plays = struck.map(|fault| scope.spawn(move || play(fault, heals)));
            plays.collect::<Plays>()
        };
        let (lost, healed) = (start(false), start(true));
        let verdicts = |plays: Plays| -> Vec<_> {
            let joined = plays.into_iter().map(ScopedJoinHandle::join);
            joined.flat_map(Result::unwrap).collect()
        };
        (verdicts(lost), verdicts(healed))
    });
    assert_eq!((lost.len(), healed.len()), (42, 30));
    let allowed = NOISE.as_millis() as i64;
    for Verdict { cell, late } in &lost {
        println!("{cell}: {late:?}");
    }
    let wrong = |verdict: &&Verdict| verdict.late.as_ref().map_or(true, |late| *late > allowed);
    let wrong: Vec<_> = lost.iter().chain(&healed).filter(wrong).collect();
    let wrong: Vec<_> = wrong.iter().map(|it| (&it.cell, &it.late)).collect();
    assert!(wrong.is_empty(), "{wrong:#?}, {allowed} ms allowed");
}
