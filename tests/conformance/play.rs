//! Plays the cases on a topology, many at once, on separate keys.

use std::any::Any;
use std::collections::BTreeSet;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::Builder;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::fixture::{Fixture, Shared};
use super::registry::{CASES, Case, REAL_TIME, Scope, TIMED};
use super::topology::Topology;
use lock_test_support::time::{Timed, within};

/// For how long a case, or all others that run beside it, may make no progress.
const LIMIT: Duration = Duration::from_secs(180);

/// The limit on concurrent cases over all topologies, by their weight: more would starve each other.
static AT_ONCE: Semaphore = Semaphore::const_new(12);

/// How a case failed.
struct Failure {
    name: &'static str,
    words: String,
    /// For how long the machine starved it, if that may be why.
    starved: Option<Duration>,
}

/// Plays the cases that can differ on this topology, or all in the full tier.
pub fn play(topology: Topology) {
    play_with(topology, Builder::new_multi_thread().worker_threads(3));
}

/// Plays those that depend on it on a single thread, as most tests of services do.
pub fn play_on_one_thread(topology: Topology) {
    let plays = |case: &Case| case.scope == Scope::Runtime;
    play_with(
        Topology { plays, ..topology },
        &mut Builder::new_current_thread(),
    );
}

fn play_with(topology: Topology, runtime: &mut Builder) {
    let runtime = runtime.enable_all().build().unwrap();
    let failures = runtime.block_on(async {
        let (weight, plays) = (topology.weight, topology.plays);
        let shared = Arc::new(Shared::on(topology).await);
        let mut playing = JoinSet::new();
        let is_full = std::env::var_os("LOCK_FULL").is_some();
        for case in chosen().filter(|case| is_full || plays(case)) {
            let fixture = Fixture::new(shared.clone(), case.name);
            playing.spawn(async move {
                let _turn = AT_ONCE.acquire_many(weight).await.unwrap();
                play_case(fixture, case).await
            });
        }
        let ends = playing.join_all().await;
        within(LIMIT, shared.close()).await;
        ends.into_iter().flatten().collect()
    });
    report(failures);
}

/// Plays each case on a paused runtime of its own, whose clock jumps to the next timer whenever all tasks
/// wait.
pub fn play_in_virtual_time(topology: fn() -> Topology) {
    let cases: Vec<_> = chosen()
        .filter(|it| !REAL_TIME.contains(&it.name))
        .collect();
    let mut playing: BTreeSet<_> = cases.iter().map(|case| case.name).collect();
    let cases = Arc::new(Mutex::new(cases.into_iter()));
    let (sender, ends) = mpsc::channel();
    for _ in 0..4 {
        let (cases, sender) = (cases.clone(), sender.clone());
        let next = move || cases.lock().unwrap().next();
        thread::spawn(move || {
            while let Some(case) = next() {
                sender
                    .send((case.name, play_paused(topology(), case)))
                    .unwrap();
            }
        });
    }
    drop(sender);
    let mut failures = Vec::new();
    while let Ok((name, failure)) = ends.recv_timeout(LIMIT) {
        playing.remove(name);
        failures.extend(failure);
    }
    assert!(playing.is_empty(), "no end within {LIMIT:?}: {playing:?}");
    report(failures);
}

fn play_paused(topology: Topology, case: &'static Case) -> Option<Failure> {
    let mut runtime = Builder::new_current_thread();
    let runtime = runtime.enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let shared = Arc::new(Shared::on(topology).await);
        let failure = play_case(Fixture::new(shared.clone(), case.name), case).await;
        within(LIMIT, shared.close()).await;
        failure.map(|it| Failure {
            starved: None,
            ..it
        })
    })
}

async fn play_case(fixture: Fixture, case: &'static Case) -> Option<Failure> {
    let (timed, begun) = (Timed::start(), Instant::now());
    let ended = tokio::spawn(within(LIMIT, (case.run)(fixture))).await;
    if std::env::var_os("LOCK_CASE_TIMES").is_some() {
        println!("{:>8.3} s {}", begun.elapsed().as_secs_f64(), case.name);
    }
    let is_timed = TIMED.contains(&case.name);
    ended.err().map(|error| Failure {
        name: case.name,
        words: words(error.into_panic().as_ref()),
        starved: timed.excuse().filter(|_| is_timed),
    })
}

/// Returns the cases whose names contain a word of `LOCK_CASES`, or all.
fn chosen() -> impl Iterator<Item = &'static Case> {
    let chosen = std::env::var("LOCK_CASES").unwrap_or_default();
    let is_chosen = move |case: &&Case| chosen.split(',').any(|it| case.name.contains(it));
    CASES.iter().filter(is_chosen)
}

/// `tests/run.sh` repeats what is to be repeated alone, unless another case has failed.
fn report(failures: Vec<Failure>) {
    for failure in &failures {
        match failure.starved {
            Some(starved) => println!("repeat alone: {}, starved for {starved:?}", failure.name),
            None => println!("failed: {}", failure.name),
        }
    }
    let failed: Vec<_> = failures
        .iter()
        .map(|it| format!("{}: {}", it.name, it.words))
        .collect();
    assert!(
        failed.is_empty(),
        "{} cases failed:\n{}",
        failed.len(),
        failed.join("\n")
    );
}

/// Returns the beginning of the panic message.
fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("panicked").chars().take(400).collect()
}
