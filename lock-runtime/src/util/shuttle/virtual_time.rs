//! Time that passes only when no task can run without it, or when a scenario advances it.

use crate::util::clock::Clock;
use crate::util::shuttle::execution::running;
use pin_project_lite::pin_project;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::time::Instant;

struct VirtualTime {
    now: Instant,
    /// The same time, for leases.
    clock: Clock,
    /// The longest total time for which no task may be able to run.
    patience: Duration,
    waited: Duration,
    alarms: BTreeMap<(Instant, u64), Waker>,
    entered: u64,
    /// Wakes the task that advances time.
    idle: Option<Waker>,
}

thread_local! {
    static VIRTUAL_TIME: RefCell<Option<VirtualTime>> = const { RefCell::new(None) };
}

fn time<T>(act: impl FnOnce(&mut VirtualTime) -> T) -> T {
    VIRTUAL_TIME.with_borrow_mut(|time| act(time.as_mut().expect("time has begun")))
}

/// Sets the clocks for one execution.
pub(crate) fn install(patience: Duration) {
    VIRTUAL_TIME.set(Some(VirtualTime {
        now: Instant::now(),
        clock: Clock::manual(),
        patience,
        waited: Duration::ZERO,
        alarms: BTreeMap::new(),
        entered: 0,
        idle: None,
    }));
}

pub(crate) fn clock() -> Clock {
    time(|time| time.clock.clone())
}

pub(crate) fn now() -> Option<Instant> {
    running().then(|| time(|time| time.now))
}

/// Advances time at once, even while other tasks can run.
pub(crate) fn advance(by: Duration) {
    time(|time| time.advance_to(time.now + by));
}

/// Advances time from one alarm to the next. Runs in the task that is scheduled only when no other can run.
pub(crate) async fn run() {
    poll_fn(|context| {
        time(|time| {
            let Some((&(next, _), _)) = time.alarms.first_key_value() else {
                time.idle = Some(context.waker().clone());
                return Poll::Pending;
            };
            time.waited += next - time.now;
            let waited = time.waited;
            assert!(waited <= time.patience, "waited for too long: {waited:?}");
            time.advance_to(next);
            context.waker().wake_by_ref();
            Poll::Pending
        })
    })
    .await
}

impl VirtualTime {
    fn advance_to(&mut self, then: Instant) {
        let by = then.saturating_duration_since(self.now);
        self.now += by;
        self.clock.advance(by, by);
        let later = self
            .alarms
            .split_off(&(self.now + Duration::from_nanos(1), 0));
        let due = std::mem::replace(&mut self.alarms, later);
        due.into_values().for_each(Waker::wake);
    }
}

/// An alarm at an instant.
pub(crate) struct Alarm {
    at: Instant,
    number: Option<u64>,
}

impl Alarm {
    fn poll(&mut self, context: &Context<'_>) -> Poll<()> {
        time(|time| {
            if self.at <= time.now {
                return Poll::Ready(());
            }
            let number = *self.number.get_or_insert_with(|| {
                time.entered += 1;
                time.entered
            });
            let waker = context.waker().clone();
            time.alarms.insert((self.at, number), waker);
            if let Some(idle) = time.idle.take() {
                idle.wake();
            }
            Poll::Pending
        })
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            time(|time| time.alarms.remove(&(self.at, number)));
        }
    }
}

pin_project! {
    #[project = SleepProjection]
    pub(crate) enum Sleep {
        Real { #[pin] sleep: tokio::time::Sleep },
        Tried { alarm: Alarm },
    }
}

pub(crate) fn sleep_until(deadline: Instant) -> Sleep {
    match running() {
        true => Sleep::Tried {
            alarm: Alarm {
                at: deadline,
                number: None,
            },
        },
        false => Sleep::Real {
            sleep: tokio::time::sleep_until(deadline),
        },
    }
}

impl Sleep {
    pub(crate) fn reset(mut self: Pin<&mut Self>, deadline: Instant) {
        match self.as_mut().project() {
            SleepProjection::Real { sleep } => sleep.reset(deadline),
            SleepProjection::Tried { .. } => self.set(sleep_until(deadline)),
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        match self.project() {
            SleepProjection::Real { sleep } => sleep.poll(context),
            SleepProjection::Tried { alarm } => alarm.poll(context),
        }
    }
}

pin_project! {
    pub(crate) struct Timeout<F> {
        #[pin]
        work: F,
        #[pin]
        sleep: Sleep,
    }
}

#[derive(Debug)]
pub(crate) struct Elapsed;

pub(crate) fn timeout_at<F: Future>(deadline: Instant, work: F) -> Timeout<F> {
    Timeout {
        work,
        sleep: sleep_until(deadline),
    }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        match this.work.poll(context) {
            Poll::Ready(output) => Poll::Ready(Ok(output)),
            Poll::Pending => this.sleep.poll(context).map(|()| Err(Elapsed)),
        }
    }
}
