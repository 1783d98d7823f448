//! The parts that threads share, under a scheduler that tries one order of their steps after the
//! other, half of them drawn at random, half by probabilistic concurrency testing.
//!
//! Every mutex and flag is a point where another thread may go first, and so is each request to the
//! server and each of its answers. `LOCK_SHUTTLE=100000` tries so many orders of each scenario. A
//! failure prints its order; `LOCK_SHUTTLE_REPLAY=<order>` beside the test's name tries that one again.

pub(crate) mod checked_guard;
pub(crate) mod delayed_engine;
pub(crate) mod handoff;
pub(crate) mod loss;
pub(crate) mod process;
pub(crate) mod queues;
pub(crate) mod releases;
pub(crate) mod server;

use crate::util::shuttle::scheduler::Patient;
use crate::util::shuttle::{spawn, virtual_time};
use shuttle::future::JoinHandle;
use shuttle::rand::Rng;
use shuttle::scheduler::{PctScheduler, RandomScheduler, ReplayScheduler, Scheduler};
use shuttle::{Config, MaxSteps, Runner};
use std::future::{Future, poll_fn};
use std::task::Poll;
use std::time::Duration;

/// How many orders are tried, unless the environment says another number.
const TRIES: usize = 600;

/// After how many steps somebody is going round in circles.
const STEPS: usize = 100_000;

/// How many preemptions a fault may need.
const DEPTH: usize = 3;

/// Tries a scenario in many orders, in each of which nobody may wait longer than `patience`.
fn explore<F>(patience: Duration, scenario: impl Fn() -> F + Send + Sync + Copy + 'static)
where
    F: Future<Output = ()>,
{
    let replay = std::env::var("LOCK_SHUTTLE_REPLAY");
    let tries = std::env::var("LOCK_SHUTTLE").map_or(TRIES, |tries| tries.parse().unwrap());
    match replay {
        Ok(order) => run(
            ReplayScheduler::new_from_encoded(&order),
            patience,
            scenario,
        ),
        Err(_) => {
            run(Patient(RandomScheduler::new(tries / 2)), patience, scenario);
            run(
                Patient(PctScheduler::new(DEPTH, tries / 2)),
                patience,
                scenario,
            );
        }
    }
}

fn run<F>(
    scheduler: impl Scheduler + 'static,
    patience: Duration,
    scenario: impl Fn() -> F + Send + Sync + 'static,
) where
    F: Future<Output = ()>,
{
    let mut config = Config::new();
    config.stack_size = 256 * 1024;
    config.max_steps = MaxSteps::FailAfter(STEPS);
    Runner::new(scheduler, config).run(move || {
        virtual_time::begin(patience);
        spawn(virtual_time::pass());
        shuttle::future::block_on(scenario());
    });
}

/// As a coin falls.
fn either() -> bool {
    shuttle::rand::thread_rng().r#gen()
}

/// Lets others go first, or doesn't.
async fn pause() {
    let mut paused = either();
    poll_fn(|context| {
        if std::mem::replace(&mut paused, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Waits for something for so many turns at most.
async fn impatient<F: Future>(most: usize, work: F) -> Option<F::Output> {
    let mut work = Box::pin(work);
    let mut turns = shuttle::rand::thread_rng().gen_range(0..=most);
    poll_fn(|context| {
        if let Poll::Ready(output) = work.as_mut().poll(context) {
            return Poll::Ready(Some(output));
        }
        if turns == 0 {
            return Poll::Ready(None);
        }
        turns -= 1;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await
}

async fn all(tasks: impl IntoIterator<Item = JoinHandle<()>>) {
    for task in tasks {
        task.await.unwrap();
    }
}
