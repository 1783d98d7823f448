//! The rules of leases, on a scripted engine and a manual clock.

use crate::api::guard::LockGuard;
use crate::api::manager::LockManager;
use crate::config::Config;
use crate::engine::background_release::{AwaitedAcquire, ReleaseSupervisor};
use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::lease::Lease;
use crate::engine::memory::MemoryEngine;
use crate::engine::memory::store::Store;
use crate::engine::request::{Acquired, Attempt, Claim, EngineFuture, EnqueueReply, ServerTime};
use crate::engine::requests::{Requests, answer_operations};
use crate::engine::token::Token;
use crate::engine::traits::Engine;
use crate::error::{LockError, LostCause};
use crate::limit::Limit;
use crate::lock::hold::Hold;
use crate::lock::inner::{InnerSlot, Manager};
use crate::lock::watchdog::renewable::Renewable;
use crate::options::{LockOptions, ReleaseMode};
use crate::process::ProcessId;
use crate::util::clock::Clock;
use crate::util::io_thread::IoThread;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

const TTL: Duration = Duration::from_secs(30);

/// The embedded engine, behind a scripted network.
struct Scripted {
    memory: MemoryEngine,
    clock: Clock,
    script: Mutex<VecDeque<(Request, Turn)>>,
    seen: watch::Sender<Vec<(Request, Token)>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Request {
    Acquire,
    Wait,
    Cancel,
    Release,
    Renew,
    Fence,
    Downgrade,
}

#[derive(Clone, Copy)]
enum Turn {
    /// The request is not executed.
    Fails(EngineErrorKind),
    /// The request is executed, and the reply is reported as lost.
    ReplyLost,
    /// The request is executed, and the reply takes this long.
    ReplyLate(Duration),
    /// The request takes this long to arrive, and the reply no time.
    RequestLate(Duration),
    /// The request is executed, and no reply arrives.
    Hangs,
    /// The request is executed, and its future panics.
    Panics,
}

impl Scripted {
    fn request<T: Send + 'static>(
        &self,
        request: Request,
        claim: &Claim,
        work: impl FnOnce() -> EngineFuture<'static, T>,
    ) -> EngineFuture<'static, T> {
        self.seen
            .send_modify(|seen| seen.push((request, claim.token)));
        let turn = {
            let mut script = self.script.lock().unwrap();
            let next = script.iter().position(|(of, _)| *of == request);
            next.and_then(|next| script.remove(next))
        };
        let failure = |kind| EngineError::new(kind, "script");
        match turn {
            None => work(),
            Some((_, Turn::Fails(kind))) => Box::pin(std::future::ready(Err(failure(kind)))),
            Some((_, Turn::ReplyLost)) => {
                drop(work());
                Box::pin(std::future::ready(Err(failure(
                    EngineErrorKind::Indeterminate,
                ))))
            }
            Some((_, Turn::ReplyLate(by))) => {
                let reply = work();
                self.clock.advance(by, by);
                reply
            }
            Some((_, Turn::RequestLate(by))) => {
                self.clock.advance(by, by);
                work()
            }
            Some((_, Turn::Hangs)) => {
                drop(work());
                Box::pin(std::future::pending())
            }
            Some((_, Turn::Panics)) => {
                drop(work());
                Box::pin(async { panic!("script") })
            }
        }
    }
}

fn done<T: Send + 'static>(reply: EngineFuture<'_, T>) -> EngineFuture<'static, T> {
    let mut context = Context::from_waker(Waker::noop());
    let std::task::Poll::Ready(reply) = pin!(reply).poll(&mut context) else {
        unreachable!("the embedded engine replies at once");
    };
    Box::pin(std::future::ready(reply))
}

impl Scripted {
    async fn pass(&self, _: Instant) -> Result<&MemoryEngine, EngineError> {
        Ok(&self.memory)
    }
}

answer_operations! { Scripted: pass[ping views] }

impl Requests for Scripted {
    fn acquire<'a>(
        &'a self,
        attempt: &'a Attempt,
        supervisor: &'a Arc<dyn ReleaseSupervisor>,
        _: Instant,
    ) -> EngineFuture<'a, Option<Acquired>> {
        let token = Token::random().recallable_if(attempt.is_recallable);
        let claim = attempt.claim(token);
        let acquired = self.request(Request::Acquire, &claim, || {
            let acquired = self.memory.acquire(&claim);
            Box::pin(std::future::ready(Ok(acquired)))
        });
        let awaited = AwaitedAcquire::new(attempt, token, supervisor);
        Box::pin(async move { awaited.replied(acquired.await.map(usize::from)) })
    }

    fn enqueue<'a>(
        &'a self,
        claim: &'a Claim,
        valid_until: Option<ServerTime>,
        deadline: Instant,
    ) -> EngineFuture<'a, EnqueueReply> {
        self.request(Request::Wait, claim, || {
            done(Requests::enqueue(
                &self.memory,
                claim,
                valid_until,
                deadline,
            ))
        })
    }

    fn cancel<'a>(
        &'a self,
        claim: &'a Claim,
        in_flight: bool,
        deadline: Instant,
    ) -> EngineFuture<'a, bool> {
        self.request(Request::Cancel, claim, || {
            done(Requests::cancel(&self.memory, claim, in_flight, deadline))
        })
    }

    fn release<'a>(&'a self, claim: &'a Claim, deadline: Instant) -> EngineFuture<'a, bool> {
        self.request(Request::Release, claim, || {
            done(Requests::release(&self.memory, claim, deadline))
        })
    }

    fn renew<'a>(
        &'a self,
        claims: &'a [Claim],
        deadline: Instant,
    ) -> EngineFuture<'a, Vec<Result<bool, EngineError>>> {
        self.request(Request::Renew, &claims[0], || {
            done(Requests::renew(&self.memory, claims, deadline))
        })
    }

    fn fencing_token<'a>(
        &'a self,
        claim: &'a Claim,
        deadline: Instant,
    ) -> EngineFuture<'a, Option<u64>> {
        self.request(Request::Fence, claim, || {
            done(Requests::fencing_token(&self.memory, claim, deadline))
        })
    }

    fn downgrade<'a>(
        &'a self,
        claim: &'a Claim,
        to: Token,
        deadline: Instant,
    ) -> EngineFuture<'a, Option<Duration>> {
        self.request(Request::Downgrade, claim, || {
            done(Requests::downgrade(&self.memory, claim, to, deadline))
        })
    }
}

impl Engine for Scripted {
    fn hears_recalls(&self, _: &str) -> bool {
        true
    }
}

/// A manager on a scripted engine.
struct Stage {
    locks: LockManager,
    clock: Clock,
    seen: watch::Receiver<Vec<(Request, Token)>>,
}

fn stage(script: impl IntoIterator<Item = (Request, Turn)>) -> Stage {
    let clock = Clock::manual();
    let (sender, seen) = watch::channel(Vec::new());
    let slot = InnerSlot::default();
    let store = Store::with_clock(clock.clone());
    let engine = Arc::new(Scripted {
        memory: MemoryEngine::new(store, slot.event_handler()),
        clock: clock.clone(),
        script: Mutex::new(script.into_iter().collect()),
        seen: sender,
    });
    let config = Config::new("memory://").prefix("");
    let io = IoThread::start().unwrap();
    let (process, opened) = (ProcessId::random(), (engine as _, "scripted".into()));
    let inner = Manager::start(io, clock.clone(), process, opened, &config);
    slot.fill(&inner);
    let locks = LockManager { inner };
    Stage { locks, clock, seen }
}

impl Stage {
    async fn take(&self) -> LockGuard {
        self.locks.lock("a").ttl(TTL).acquire().await.unwrap()
    }

    async fn is_free(&self) -> bool {
        self.locks.lock("a").try_acquire().await.unwrap().is_some()
    }

    fn tokens(&self, of: Request) -> Vec<Token> {
        let seen = self.seen.borrow();
        let of = seen.iter().filter(|(request, _)| *request == of);
        of.map(|(_, token)| *token).collect()
    }

    async fn sees(&mut self, request: Request, times: usize) {
        let count =
            |seen: &Vec<(Request, Token)>| seen.iter().filter(|(seen, _)| *seen == request).count();
        let seen = self.seen.wait_for(|seen| count(seen) >= times);
        tokio::time::timeout(Duration::from_secs(10), seen)
            .await
            .expect("the request is sent")
            .unwrap();
    }
}

fn cause(error: Option<LockError>) -> Option<LostCause> {
    match error {
        Some(LockError::Lost { cause, .. }) => Some(cause),
        _ => None,
    }
}

#[tokio::test]
async fn a_reply_slower_than_its_lease_is_no_acquisition() {
    let stage = stage([(Request::Acquire, Turn::ReplyLate(TTL))]);
    let guard = stage.take().await;
    let [first, second] = stage.tokens(Request::Acquire)[..] else {
        panic!("expected two requests");
    };
    assert_ne!(first, second);
    assert_eq!(guard.hold().claim().token, second);
    assert!(guard.is_valid());
}

#[tokio::test]
async fn an_attempt_without_a_reply_is_released_and_the_next_has_a_new_token() {
    let mut stage = stage([(Request::Acquire, Turn::ReplyLost)]);
    let guard = stage.take().await;
    stage.sees(Request::Release, 1).await;
    assert_eq!(
        stage.tokens(Request::Release),
        stage.tokens(Request::Acquire)[..1]
    );
    assert_ne!(
        guard.hold().claim().token,
        stage.tokens(Request::Acquire)[0]
    );
}

#[tokio::test]
async fn an_acquisition_dropped_in_flight_is_released() {
    let mut stage = stage([(Request::Acquire, Turn::Hangs)]);
    {
        let mut acquire: Pin<Box<dyn Future<Output = _>>> =
            Box::pin(stage.locks.lock("a").acquire());
        let mut context = Context::from_waker(Waker::noop());
        assert!(acquire.as_mut().poll(&mut context).is_pending());
        assert!(!stage.is_free().await);
    }
    stage.sees(Request::Release, 1).await;
    stage.locks.shutdown().await;
    assert_eq!(
        stage.tokens(Request::Release),
        stage.tokens(Request::Acquire)[..1]
    );
}

#[tokio::test]
async fn a_rejected_request_ends_the_wait_at_once() {
    let stage = stage([(Request::Acquire, Turn::Fails(EngineErrorKind::Rejected))]);
    let error = stage.locks.lock("a").acquire().await.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    assert_eq!(stage.tokens(Request::Acquire).len(), 1);
    assert_eq!(stage.tokens(Request::Release).len(), 0, "no acquisition");
}

#[tokio::test]
async fn a_single_try_fails_at_once_without_a_connection() {
    let stage = stage([(Request::Acquire, Turn::Fails(EngineErrorKind::NotConnected))]);
    let error = stage.locks.lock("a").try_acquire().await.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    assert_eq!(stage.tokens(Request::Acquire).len(), 1);
}

#[tokio::test]
async fn a_wait_continues_through_an_outage() {
    let down = (Request::Acquire, Turn::Fails(EngineErrorKind::NotConnected));
    let stage = stage([
        down,
        down,
        (Request::Acquire, Turn::Fails(EngineErrorKind::NotReady)),
    ]);
    assert!(stage.take().await.is_valid());
}

#[tokio::test]
async fn a_renewal_counts_from_before_it_was_sent() {
    let stage = stage([]);
    let guard = stage.take().await;
    let sent = stage.clock.now();
    stage.clock.advance(TTL / 2, TTL / 2);
    guard
        .hold()
        .clone()
        .on_renewed(sent, stage.clock.now(), true);
    assert_eq!(
        guard.remaining(),
        TTL / 2 - TTL / 100 - Duration::from_millis(2)
    );
}

#[tokio::test]
async fn a_reply_to_a_renewal_after_the_deadline_does_not_count() {
    let stage = stage([]);
    let guard = stage.take().await;
    stage.clock.advance(TTL / 2, TTL / 2);
    let sent = stage.clock.now();
    stage.clock.advance(TTL / 2, TTL / 2);
    guard
        .hold()
        .clone()
        .on_renewed(sent, stage.clock.now(), true);
    assert!(!guard.is_valid());
    assert_eq!(cause(guard.hold().check_lost()), Some(LostCause::Expired));
}

#[tokio::test]
async fn a_failed_renewal_does_not_shorten_the_lease() {
    let stage = stage([]);
    let guard = stage.take().await;
    let before = guard.remaining();
    guard
        .hold()
        .clone()
        .on_renewal_failed(&EngineError::new(EngineErrorKind::Indeterminate, "script"));
    assert_eq!(guard.remaining(), before);
}

#[tokio::test]
async fn a_renewal_that_reports_another_owner_ends_the_lease_at_once() {
    let stage = stage([]);
    let guard = stage.take().await;
    guard
        .hold()
        .clone()
        .on_renewed(stage.clock.now(), stage.clock.now(), false);
    assert_eq!(cause(Some(guard.lost().await)), Some(LostCause::NotOwner));
}

#[tokio::test]
async fn a_lease_ends_while_the_machine_sleeps() {
    let stage = stage([]);
    let guard = stage.take().await;
    stage.clock.advance(2 * TTL, Duration::ZERO);
    assert!(!guard.is_valid());
    assert_eq!(cause(guard.hold().check_lost()), Some(LostCause::Expired));
    assert!(
        guard
            .ensure_valid_for(Duration::ZERO)
            .unwrap_err()
            .is_lost()
    );
}

/// The first try put the new token there, and the next one reached the server late: by the time it had its
/// reply, the time that the server says was left has passed since it was sent.
#[tokio::test]
async fn a_downgraded_lease_ends_no_earlier_than_the_one_before() {
    let late = Turn::RequestLate(TTL * 2 / 3);
    let stage = stage([
        (Request::Downgrade, Turn::ReplyLost),
        (Request::Downgrade, late),
    ]);
    let guard = stage.take().await;
    let left = guard.remaining();
    let guard = guard.downgrade().await.unwrap();
    assert_eq!(stage.tokens(Request::Downgrade).len(), 2);
    assert_eq!(guard.remaining(), left - TTL * 2 / 3);
}

/// The machine slept, and no timer has fired yet.
#[tokio::test]
async fn a_kept_lock_is_not_resumed_after_its_lease() {
    let stage = stage([]);
    let lock = || stage.locks.lock("a").ttl(TTL);
    let take = async || lock().release_mode(ReleaseMode::Lazy).acquire().await;
    drop(take().await.unwrap());
    drop(take().await.unwrap());
    assert_eq!(stage.tokens(Request::Acquire).len(), 1, "it is not kept");
    stage.clock.advance(2 * TTL, Duration::ZERO);
    let guard = take().await.unwrap();
    assert!(guard.is_valid());
    assert_eq!(stage.tokens(Request::Acquire).len(), 2);
}

/// A wait in a queue of the server may outlive the callers for a while, and the thread of the last of them
/// waits for what it begins alone.
#[tokio::test]
async fn the_last_caller_gives_kept_locks_back_while_a_wait_goes_on() {
    let Stage { locks, seen, .. } = stage([]);
    let lock = locks.lock("a").ttl(TTL).release_mode(ReleaseMode::Lazy);
    drop(lock.acquire().await.unwrap());
    let of_wait = Arc::clone(&**locks.inner);
    assert_eq!(of_wait.stats().kept, 1);
    drop(locks);
    let is_release = |(request, _): &(Request, Token)| *request == Request::Release;
    assert!(seen.borrow().last().is_some_and(is_release));
}

/// A call that lets other tasks run may not be polled again.
#[tokio::test]
async fn a_call_that_yields_holds_no_kept_lock() {
    let stage = stage([]);
    let call = || {
        let lock = stage.locks.lock("a").ttl(TTL);
        Box::pin(lock.release_mode(ReleaseMode::Lazy).acquire())
    };
    drop(call().await.unwrap());
    let yields = poll_fn(|context| {
        for _ in 0..10_000 {
            let mut call = call();
            match call.as_mut().poll(context) {
                Poll::Ready(guard) => drop(guard.unwrap()),
                Poll::Pending => return Poll::Ready(call),
            }
        }
        panic!("no call yields");
    });
    let call = yields.await;
    assert_eq!(stage.locks.stats().kept, 1);
    assert!(call.await.unwrap().is_valid());
}

#[tokio::test]
async fn ensure_valid_for_requires_that_much_time() {
    let stage = stage([]);
    let guard = stage.take().await;
    assert!(guard.ensure_valid_for(TTL / 2).is_ok());
    assert_eq!(
        cause(guard.ensure_valid_for(TTL).err()),
        Some(LostCause::InsufficientTime)
    );
    assert!(guard.is_valid());
}

/// The machine slept, and no timer has fired yet.
#[tokio::test]
async fn every_poll_of_lost_checks_the_clock() {
    let stage = stage([]);
    let guard = stage.take().await;
    let mut context = Context::from_waker(Waker::noop());
    let mut lost = pin!(guard.lost());
    assert!(lost.as_mut().poll(&mut context).is_pending());
    stage.clock.advance(TTL, Duration::ZERO);
    assert!(lost.as_mut().poll(&mut context).is_ready());
}

#[tokio::test]
async fn renewals_are_sent_and_retried_until_one_has_a_reply() {
    let lost = (Request::Renew, Turn::Fails(EngineErrorKind::Indeterminate));
    let mut stage = stage([lost, lost]);
    let short = Duration::from_millis(300);
    let guard = stage.locks.lock("a").ttl(short).acquire().await.unwrap();
    stage.clock.advance(short / 2, short / 2);
    let left = guard.remaining();
    stage.sees(Request::Renew, 3).await;
    while guard.remaining() == left {
        tokio::task::yield_now().await;
    }
    assert!(guard.remaining() > left);
}

/// Before its first request: one that is sent too late would be reported as without a reply.
#[tokio::test]
async fn a_wait_that_is_over_at_once_is_busy() {
    let stage = stage([]);
    for keys in [vec!["b"], vec!["b", "c"]] {
        let lock = stage.locks.lock_all(keys).wait(Duration::from_nanos(1));
        let error = lock.acquire().await.unwrap_err();
        assert!(error.is_busy(), "{error}");
    }
    assert!(stage.seen.borrow().is_empty());
}

fn granted(stage: &Stage, options: LockOptions, lease: Lease) -> Arc<Hold> {
    let claim = Claim {
        name: "b".into(),
        token: Token::random(),
        ttl: options.ttl,
        replicas: 0,
    };
    let shared = stage.locks.inner.shared.clone();
    let granted = Hold::granted(shared, claim, options, lease);
    granted.expect("the lease has not ended")
}

/// However little time is left, an attempt without a reply leaves time for more, at shorter and shorter
/// intervals.
#[tokio::test]
async fn a_renewal_is_attempted_several_times_before_the_deadline() {
    let hangs = (Request::Renew, Turn::Hangs);
    let stage = stage([hangs; 1000]);
    let options = LockOptions::new(Limit::EXCLUSIVE, Duration::from_secs(600));
    for (left, tries) in [(20_000, 10..40), (1_300, 6..25), (100, 2..10)] {
        let left = Duration::from_millis(left);
        let lease = Lease::exactly(stage.clock.now(), left);
        let hold = granted(&stage, options, lease);
        let mut tried = 0;
        let renew = || {
            let due = hold.renews_at().unwrap();
            hold.clone().on_due(due, stage.clock.now())
        };
        while let Some(renewal) = renew() {
            let patience = renewal.timeout;
            stage.clock.advance(patience, patience);
            if hold.remaining().is_zero() {
                break;
            }
            tried += 1;
            assert!(patience <= left / 3 + Duration::from_millis(1));
            hold.clone()
                .on_renewal_failed(&EngineError::new(EngineErrorKind::Indeterminate, "script"));
            let pause = hold.renews_at().unwrap() - crate::util::time::now();
            stage.clock.advance(pause, pause);
        }
        assert!(tries.contains(&tried), "{tried} tries within {left:?}");
        hold.release_in_background();
    }
}

/// The first waiter that a grant was offered to has left, and a renewal with its ttl may be in flight.
#[tokio::test]
async fn a_grant_offered_again_does_not_outlast_a_renewal_for_the_first_waiter() {
    let stage = stage([(Request::Renew, Turn::Hangs)]);
    let [long, short] =
        [TTL, Duration::from_millis(800)].map(|ttl| LockOptions::new(Limit::EXCLUSIVE, ttl));
    let lease = Lease::from_request(stage.clock.now(), TTL);
    let hold = granted(&stage, short, lease);
    let due = hold.renews_at().unwrap();
    assert!(hold.clone().on_due(due, stage.clock.now()).is_some());
    assert!(!hold.offer_again(long));
    assert!(hold.remaining() <= short.ttl);
    hold.release_in_background();
}

#[tokio::test]
async fn a_hold_is_not_renewed_after_its_guard_is_dropped() {
    let stage = stage([]);
    let guard = stage.locks.lock("a").ttl(TTL).acquire().await.unwrap();
    let hold = guard.hold().clone();
    drop(guard);
    stage.locks.shutdown().await;
    assert_eq!(Arc::strong_count(&hold), 1, "the hold is unscheduled");
    hold.clone()
        .on_renewed(stage.clock.now(), stage.clock.now(), false);
    assert_eq!(cause(hold.check_lost()), None, "a late reply is no loss");
}

#[tokio::test]
async fn a_release_is_repeated_until_it_is_confirmed() {
    let lost = (
        Request::Release,
        Turn::Fails(EngineErrorKind::Indeterminate),
    );
    let stage = stage([
        lost,
        (Request::Release, Turn::Fails(EngineErrorKind::NotConnected)),
        lost,
    ]);
    drop(stage.take().await);
    stage.locks.shutdown().await;
    assert_eq!(stage.tokens(Request::Release).len(), 4);
}

#[tokio::test]
async fn a_release_whose_reply_was_lost_reports_no_loss() {
    let stage = stage([(Request::Release, Turn::ReplyLost)]);
    stage.take().await.release().await.unwrap();
    assert_eq!(stage.tokens(Request::Release).len(), 2);
}

/// Whoever releases a lost lock must learn that others may have had it, with the server down, too.
#[tokio::test]
async fn a_lost_lock_that_cannot_be_released_is_lost() {
    let stage = stage([(Request::Release, Turn::Fails(EngineErrorKind::Rejected))]);
    let guard = stage.take().await;
    stage.clock.advance(2 * TTL, 2 * TTL);
    assert!(guard.release().await.unwrap_err().is_lost());
}

#[tokio::test]
async fn a_dropped_release_continues_in_the_background() {
    let mut stage = stage([(Request::Release, Turn::Hangs)]);
    let guard = stage.take().await;
    {
        let mut release: Pin<Box<dyn Future<Output = _>>> = Box::pin(guard.release());
        let mut context = Context::from_waker(Waker::noop());
        assert!(release.as_mut().poll(&mut context).is_pending());
    }
    stage.sees(Request::Release, 2).await;
}

#[tokio::test]
async fn a_body_keeps_its_value_when_the_release_fails() {
    let stage = stage([(Request::Release, Turn::Fails(EngineErrorKind::Rejected))]);
    let value = stage.locks.lock("a").run(async |_| 7).await;
    assert_eq!(value.unwrap(), 7);
}

#[tokio::test]
async fn after_a_shutdown_no_lock_is_granted() {
    let stage = stage([]);
    let guard = stage.take().await;
    let mut shutdown = Box::pin(stage.locks.shutdown_within(Duration::MAX));
    let ended = tokio::time::timeout(Duration::ZERO, &mut shutdown).await;
    assert!(ended.is_err() && guard.is_valid(), "a held lock stays held");
    let error = stage.locks.lock("b").acquire().await.unwrap_err();
    assert!(matches!(error, LockError::ShuttingDown { .. }), "{error}");
    drop(guard);
    shutdown.await;
}

#[tokio::test]
async fn a_fencing_token_is_fetched_once_for_a_hold() {
    let stage = stage([(Request::Fence, Turn::ReplyLost)]);
    let guard = stage.take().await;
    let token = guard.fencing_token().await.unwrap();
    assert_eq!(guard.fencing_token().await.unwrap(), token);
    assert_eq!(stage.tokens(Request::Fence).len(), 2);
}

#[tokio::test]
async fn a_lock_works_on_any_executor() {
    let stage = stage([]);
    let guard = std::thread::spawn(move || {
        let mut acquire = pin!(stage.locks.lock("a").acquire());
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut context = Context::from_waker(&waker);
        loop {
            match acquire.as_mut().poll(&mut context) {
                std::task::Poll::Ready(guard) => return guard,
                std::task::Poll::Pending => std::thread::park(),
            }
        }
    })
    .join()
    .unwrap();
    assert!(guard.unwrap().is_valid());
}

struct Unpark(std::thread::Thread);

impl std::task::Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// A waiter that received the lock but was polled only after its queue had been replaced removes no waiter of
/// the new queue.
#[tokio::test]
async fn a_ticket_of_a_removed_queue_matches_no_waiter_of_its_successor() {
    // Otherwise a slow machine hands the lock on over the server.
    let config = || Config::new("memory://a-line-that-has-ended").local_handoff(1, Duration::MAX);
    let connect = || LockManager::connect(config());
    let (ours, theirs) = (connect().await.unwrap(), connect().await.unwrap());
    let wait = |locks: &LockManager| locks.lock("door").wait(TTL);
    let first = wait(&ours).acquire().await.unwrap();
    // The server must learn of the shorter ttl before it has passed.
    let short = wait(&ours).ttl(Duration::from_secs(2)).renew(false);
    let mut second = Box::pin(short.acquire());
    let mut context = Context::from_waker(Waker::noop());
    assert!(second.as_mut().poll(&mut context).is_pending());
    drop(first);
    let other = wait(&theirs).acquire().await.unwrap();
    while !ours.inner.queues.is_unused("lock:door") {
        tokio::task::yield_now().await;
    }
    let third = tokio::spawn(wait(&ours).acquire());
    while ours.inner.queues.is_empty("lock:door", Limit::EXCLUSIVE) {
        tokio::task::yield_now().await;
    }
    drop(second);
    other.release().await.unwrap();
    third.await.unwrap().unwrap().release().await.unwrap();
}

type Call = Pin<Box<dyn Future<Output = Result<LockGuard, LockError>> + Send>>;

/// A waker that begins another call when it is called first.
struct OnWake {
    call: Mutex<Option<Call>>,
    begun: std::sync::mpsc::Sender<Call>,
}

impl std::task::Wake for OnWake {
    fn wake(self: Arc<Self>) {
        if let Some(mut call) = self.call.lock().unwrap().take() {
            let began = call.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(began.is_pending());
            self.begun.send(call).unwrap();
        }
    }
}

/// A reader that comes as soon as another one has entered from the server queue comes after a writer that
/// waits there.
#[tokio::test]
async fn a_reader_after_a_grant_passes_no_writer() {
    let connect = || LockManager::connect("memory://readers-and-a-writer");
    let (ours, theirs) = (connect().await.unwrap(), connect().await.unwrap());
    let third = connect().await.unwrap();
    let wait = |locks: &LockManager| locks.lock("door").wait(TTL);
    let holder = wait(&theirs).acquire().await.unwrap();
    let mut first = Box::pin(wait(&ours).read().acquire());
    // A reader waits for the result of a try first; its next timer is that of the wait.
    let mut polls = 0;
    poll_fn(|context| {
        assert!(first.as_mut().poll(context).is_pending());
        polls += 1;
        if polls < 2 {
            Poll::Pending
        } else {
            Poll::Ready(())
        }
    })
    .await;
    let (begun, second) = std::sync::mpsc::channel();
    let waker = Waker::from(Arc::new(OnWake {
        call: Mutex::new(Some(Box::pin(wait(&ours).read().acquire()))),
        begun,
    }));
    let polled = first.as_mut().poll(&mut Context::from_waker(&waker));
    assert!(polled.is_pending());
    until_in_server_queue(&ours, Limit::UNLIMITED).await;
    let writer = tokio::spawn(wait(&third).acquire());
    until_in_server_queue(&third, Limit::EXCLUSIVE).await;
    holder.release().await.unwrap();
    let mut second = second.recv_timeout(TTL).unwrap();
    first.await.unwrap().release().await.unwrap();
    let writer = writer.await.unwrap().unwrap();
    let polled = second
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending());
    writer.release().await.unwrap();
    second.await.unwrap().release().await.unwrap();
}

async fn until_in_server_queue(locks: &LockManager, limit: Limit) {
    let queues = &locks.inner.queues;
    while queues.remote_waiters("lock:door", limit).is_none() {
        tokio::task::yield_now().await;
    }
}

/// Shuts down. Fails if that takes too long.
async fn shut_down(stage: &Stage) {
    let ended = tokio::time::timeout(Duration::from_secs(10), stage.locks.shutdown());
    assert!(ended.await.is_ok(), "the shutdown does not end");
}

#[tokio::test]
async fn a_shutdown_does_not_wait_for_a_release_that_panicked() {
    let stage = stage([
        (Request::Release, Turn::Fails(EngineErrorKind::NotConnected)),
        (Request::Release, Turn::Panics),
    ]);
    drop(stage.take().await);
    shut_down(&stage).await;
    assert_eq!(stage.tokens(Request::Release).len(), 2);
}

#[tokio::test]
async fn waiters_are_served_after_a_panic_of_their_remote_wait() {
    for request in [Request::Wait, Request::Cancel] {
        let stage = stage([(Request::Wait, Turn::Panics), (request, Turn::Panics)]);
        let memory = stage.take().await;
        // With remote waiters, there is no local handoff: the remote wait serves the waiter.
        let waits = tokio::spawn(stage.locks.lock("a").wait(TTL).acquire());
        stage
            .locks
            .inner
            .queues
            .set_remote_state("a", Limit::EXCLUSIVE, Some(true), None);
        tokio::time::timeout(Duration::from_secs(10), async {
            while stage.tokens(Request::Wait).len() < 2 {
                stage
                    .locks
                    .inner
                    .queues
                    .set_remote_state("a", Limit::EXCLUSIVE, Some(true), None);
                stage.locks.inner.queues.wake_all();
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await
        .expect("the remote wait polls again");
        memory.release().await.unwrap();
        let guard = tokio::time::timeout(Duration::from_secs(10), waits).await;
        guard.unwrap().unwrap().unwrap().release().await.unwrap();
        shut_down(&stage).await;
    }
}

#[tokio::test]
async fn a_name_without_the_prefix_is_its_own_key() {
    let config = Config::new("memory://").prefix("\u{e9}:");
    let locks = LockManager::connect(config).await.unwrap();
    let key = |name| locks.inner.context.key_of(name).to_owned();
    assert_eq!(key("\u{e9}:a"), "a");
    for name in ["", "a", "\u{ea}:a", "a\u{e9}", "\u{e9}"] {
        assert_eq!(key(name), name);
    }
}

#[tokio::test]
async fn work_that_panics_is_restarted_until_it_completes() {
    let (tries, mut seen) = watch::channel(0);
    let work = crate::util::io_thread::kept(move || {
        tries.send_modify(|tries| *tries += 1);
        let tries = *tries.borrow();
        async move { assert!(tries > 2, "script") }
    });
    IoThread::start().unwrap().spawn_detached(work);
    seen.wait_for(|tries| *tries == 3).await.unwrap();
    // The completed work drops its sender.
    assert!(seen.changed().await.is_err());
}
