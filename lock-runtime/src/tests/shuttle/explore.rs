//! Runs a scenario under many schedules.

use crate::util::shuttle::execution::spawn;
use crate::util::shuttle::scheduler::TimeLast;
use crate::util::shuttle::virtual_time;
use shuttle::future::JoinHandle;
use shuttle::rand::Rng;
use shuttle::scheduler::{PctScheduler, RandomScheduler, ReplayScheduler, Scheduler};
use shuttle::{Config, MaxSteps, Runner};
use std::future::{Future, poll_fn};
use std::task::Poll;
use std::time::Duration;

/// The number of schedules, unless the environment sets another one.
const TRIES: usize = 600;

/// A schedule with more steps is a livelock.
const STEPS: usize = 100_000;

/// The number of preemptions that a failure may need.
const DEPTH: usize = 3;

/// Runs a scenario under many schedules. In each, all tasks together may wait for at most `patience`.
pub(super) fn explore<F>(
    patience: Duration,
    scenario: impl Fn() -> F + Send + Sync + Copy + 'static,
) where
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
            run(
                TimeLast(RandomScheduler::new(tries / 2)),
                patience,
                scenario,
            );
            run(
                TimeLast(PctScheduler::new(DEPTH, tries / 2)),
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
        virtual_time::install(patience);
        spawn(virtual_time::run());
        shuttle::future::block_on(scenario());
    });
}

/// Returns `true` or `false` at random.
pub(super) fn coin_flip() -> bool {
    shuttle::rand::thread_rng().r#gen()
}

/// Yields at random.
pub(super) async fn pause() {
    let mut paused = coin_flip();
    poll_fn(|context| {
        if std::mem::replace(&mut paused, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Polls `work` for a random number of turns, at most `most`. Returns `None` if it has not completed then.
pub(super) async fn with_turn_limit<F: Future>(most: usize, work: F) -> Option<F::Output> {
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

pub(super) async fn join_all(tasks: impl IntoIterator<Item = JoinHandle<()>>) {
    for task in tasks {
        task.await.unwrap();
    }
}
