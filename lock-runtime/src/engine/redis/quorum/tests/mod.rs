//! A quorum of members that pause, fail and forget on command, in virtual time: none passes while any task
//! can run.

pub(crate) mod elections;
pub(crate) mod fencing;
pub(crate) mod pings;
pub(crate) mod releases;
pub(crate) mod renewals;
pub(crate) mod scripted;
pub(crate) mod takes;
pub(crate) mod waiting;

use crate::engine::error::EngineError;
use crate::engine::redis::quorum::QuorumEngine;
use crate::engine::redis::quorum::release_hints::ReleaseHints;
use crate::engine::redis::quorum::tests::scripted::Scripted;
use crate::engine::request::Claim;
use crate::engine::token::Token;
use crate::util::io_thread::IoThread;
use crate::util::runtime_clock::RuntimeClock;
use crate::util::time::deadline_in;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::runtime::Handle;

/// How long the engine waits for a member, and the deadline of a call that gets no majority.
const PATIENCE: Duration = Duration::from_millis(150);
/// The deadline of a call that gets a majority.
const DEADLINE: Duration = Duration::from_secs(2);
const TTL: Duration = Duration::from_secs(30);

struct Bench {
    members: Vec<Arc<Scripted>>,
    quorum: Arc<QuorumEngine>,
    _clock: RuntimeClock,
}

impl Bench {
    fn of(count: usize) -> Bench {
        Bench::with_timeout(count, PATIENCE)
    }

    /// Returns a bench whose engine waits that long for a member.
    fn with_timeout(count: usize, timeout: Duration) -> Bench {
        let scripted = |number| Scripted {
            address: format!("member-{number}"),
            state: Mutex::default(),
        };
        let members: Vec<_> = (0..count)
            .map(|number| Arc::new(scripted(number)))
            .collect();
        let clock = RuntimeClock::of(&Handle::current());
        Bench {
            quorum: engine(&members, timeout),
            members,
            _clock: clock,
        }
    }

    fn where_is(&self, claim: &Claim) -> Vec<usize> {
        let has = |&member: &usize| self.members[member].has(claim);
        (0..self.members.len()).filter(has).collect()
    }

    /// Returns a claim that all members have granted.
    async fn hold(&self) -> Claim {
        let mine = claim();
        assert!(self.acquire(&mine).await.unwrap());
        let all = || self.where_is(&mine).len() == self.members.len();
        self.wait_until("all members hold it", all).await;
        mine
    }

    /// Waits until no member holds the claim's lock.
    async fn nothing_is_left(&self, claim: &Claim) {
        let nowhere = || self.where_is(claim).is_empty();
        self.wait_until("nothing is left", nowhere).await;
    }

    async fn acquire(&self, claim: &Claim) -> Result<bool, EngineError> {
        self.quorum.elect(claim, deadline_in(DEADLINE)).await
    }

    async fn release(&self, claim: &Claim) -> Result<bool, EngineError> {
        self.quorum.release(claim, deadline_in(DEADLINE)).await
    }

    async fn renew(&self, claim: &Claim) -> Result<bool, EngineError> {
        let renewed = self
            .quorum
            .renew(std::slice::from_ref(claim), deadline_in(DEADLINE));
        renewed.await.unwrap().pop().unwrap()
    }

    async fn fencing_token(&self, claim: &Claim) -> Result<Option<u64>, EngineError> {
        self.quorum
            .fencing_token(claim, deadline_in(DEADLINE))
            .await
    }

    /// Waits for background work to reach a condition.
    async fn wait_until(&self, what: &str, is_so: impl Fn() -> bool) {
        for _ in 0..1000 {
            if is_so() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        panic!("{what}");
    }
}

/// Returns the engine of another process with the same members.
fn another(members: &[Arc<Scripted>]) -> Arc<QuorumEngine> {
    engine(members, PATIENCE)
}

fn engine(members: &[Arc<Scripted>], timeout: Duration) -> Arc<QuorumEngine> {
    let hints = ReleaseHints::new(members.len(), Arc::new(|_| {}));
    let all = members.iter().map(|member| member.clone() as _).collect();
    Arc::new(QuorumEngine::new(virtual_io(), all, hints, timeout))
}

/// Returns the I/O thread, in whose place tasks and timers run on the runtime of the test.
fn virtual_io() -> IoThread {
    IoThread::start().unwrap().yielding()
}

fn claim() -> Claim {
    Claim {
        name: "door".into(),
        token: Token::random(),
        ttl: TTL,
        replicas: 0,
    }
}

fn begin<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}
