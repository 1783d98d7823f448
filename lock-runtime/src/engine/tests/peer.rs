//! A process that uses servers.

use crate::config::Config;
use crate::engine::background_release::{ReleaseSupervisor, Unused};
use crate::engine::error::EngineErrorKind;
use crate::engine::event::EngineEvent;
use crate::engine::operations::{Reading, StoredReport, Taken};
use crate::engine::recall::Recall;
use crate::engine::request::{Acquired, Attempt, Claim, EngineFuture, EnqueueReply};
use crate::engine::token::Token;
use crate::engine::traits::Engine;
use crate::engine::view::View;
use crate::limit::Limit;
use crate::process::ProcessId;
use crate::util::clock::Clock;
use crate::util::io_thread::IoThread;
use crate::util::time::deadline_in;
use std::slice::from_ref;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

/// For how long anything is awaited: a test that waits longer hangs.
pub(crate) const LONG: Duration = Duration::from_secs(20);
/// Almost the longest that the sessions of ZooKeeper allow: no lease ends during a case.
const TTL: Duration = Duration::from_secs(55);

/// Between two looks at what has no event.
pub(crate) const POLL: Duration = Duration::from_millis(20);

/// The beginning of what a process is asked to find out whether it hears anything.
const PROBE: &str = "probe ";

/// A process that uses locks, or looks at them, and what its engine reports.
pub(crate) struct Peer {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) id: ProcessId,
    prefix: String,
    pub(crate) events: mpsc::UnboundedReceiver<EngineEvent>,
    pub(crate) is_at_quorum: bool,
}

pub(crate) fn soon() -> Instant {
    deadline_in(LONG)
}

/// Returns the time of one that reads what others have written.
pub(crate) fn reading() -> Reading {
    Reading::begin(LONG)
}

/// Returns the token as views show it.
pub(crate) fn text(claim: &Claim) -> String {
    claim.token.to_string()
}

/// Returns the tokens of the holders, sorted, and of the waiters.
pub(crate) fn tokens(view: &View) -> [Vec<String>; 2] {
    let holders = view.holders.iter().map(|holder| holder.token.to_string());
    let mut holders: Vec<_> = holders.collect();
    holders.sort();
    let waiters = view.waiters.iter().map(|token| token.to_string());
    [holders, waiters.collect()]
}

/// Repeats a request until it is sent: on a busy machine, a connection may be late.
async fn sent<'a, T>(request: impl Fn() -> EngineFuture<'a, T>) -> T {
    let end = soon();
    loop {
        match request().await {
            Err(error) if error.kind == EngineErrorKind::NotConnected && Instant::now() < end => {
                tokio::time::sleep(POLL).await;
            }
            reply => return reply.unwrap(),
        }
    }
}

/// Waits until it is so.
pub(crate) async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    let look = async {
        while !is_so().await {
            tokio::time::sleep(POLL).await;
        }
    };
    timeout(LONG, look).await.expect(what);
}

impl Peer {
    pub(crate) async fn connect(config: Config) -> Peer {
        let config = config.connect_timeout(LONG).command_timeout(LONG);
        Peer::with(config, Clock::System).await
    }

    /// Connects with the timeouts of that configuration.
    pub(crate) async fn with(config: Config, clock: Clock) -> Peer {
        let (sender, events) = mpsc::unbounded_channel();
        let handler = Arc::new(move |event| drop(sender.send(event)));
        let (io, id) = (IoThread::start().unwrap(), ProcessId::random());
        let (engine, _) = config.open(io, clock, id, handler).await.unwrap();
        Peer {
            engine,
            id,
            prefix: config.prefix,
            events,
            is_at_quorum: false,
        }
    }

    pub(crate) fn name(&self, key: &str) -> String {
        [&self.prefix, key].concat()
    }

    /// Returns a new claim.
    pub(crate) fn claim(&self, key: &str, limit: Limit) -> Claim {
        self.attempt(key, limit)
            .claim(Token::draw(self.id).with_limit(limit))
    }

    pub(crate) fn attempt(&self, key: &str, limit: Limit) -> Attempt {
        Attempt {
            process: self.id,
            name: self.name(key).into(),
            ttl: TTL,
            replicas: 0,
            limit,
            is_recallable: false,
            waits: false,
            others: None,
        }
    }

    pub(crate) async fn acquire(&self, attempt: &Attempt) -> Option<Claim> {
        let supervisor: Arc<dyn ReleaseSupervisor> = Arc::new(Unused);
        match sent(|| self.engine.acquire(attempt, &supervisor, soon())).await? {
            Acquired::Locks { token, .. } => Some(attempt.claim(token)),
            Acquired::Place(token) => panic!("a place is reserved for {token:?}"),
        }
    }

    /// Acquires a lock that is free.
    pub(crate) async fn hold(&self, key: &str) -> Claim {
        let attempt = self.attempt(key, Limit::EXCLUSIVE);
        self.acquire(&attempt).await.expect("it is free")
    }

    /// Acquires a lock that is free, or shared.
    pub(crate) async fn read(&self, key: &str) -> Claim {
        let attempt = self.attempt(key, Limit::UNLIMITED);
        self.acquire(&attempt).await.expect("it can be shared")
    }

    /// Enters the queue of a lock that is held.
    pub(crate) async fn wait(&self, key: &str) -> Claim {
        let claim = self.claim(key, Limit::EXCLUSIVE);
        let reply = self.enter(&claim).await;
        assert!(matches!(reply, EnqueueReply::Queued(_)), "{reply:?}");
        claim
    }

    /// Enters the queue, and recalls the lock as a call does.
    pub(crate) async fn enter(&self, claim: &Claim) -> EnqueueReply {
        let reply = sent(|| self.engine.enqueue(claim, None, soon())).await;
        if let EnqueueReply::Queued(status) = &reply
            && let Some(keeper) = status.keeper(claim).filter(|_| !status.is_recalled)
        {
            let recalls = [Recall {
                name: claim.name.clone(),
                token: Some(keeper),
            }];
            sent(|| self.engine.recall(keeper.process(), &recalls, soon())).await;
        }
        reply
    }

    /// Acquires a lock that is free, under that claim.
    pub(crate) async fn enters(&self, claim: &Claim) {
        let reply = self.enter(claim).await;
        let holds = matches!(
            reply,
            EnqueueReply::Granted(_) | EnqueueReply::AlreadyHeld(_)
        );
        assert!(holds, "{reply:?}");
    }

    pub(crate) async fn is_stale(&self, claim: &Claim) -> bool {
        matches!(self.enter(claim).await, EnqueueReply::Stale)
    }

    /// Waits until the claim holds the lock, and returns it with the token that does.
    pub(crate) async fn until_granted(&mut self, waits: &Claim) -> Claim {
        loop {
            self.until_notified(waits).await;
            let token = match self.enter(waits).await {
                EnqueueReply::Granted(_) | EnqueueReply::AlreadyHeld(_) => waits.token,
                EnqueueReply::GrantedAs(token, _) => token,
                EnqueueReply::Queued(_) => continue,
                EnqueueReply::Stale => panic!("it has no place"),
            };
            let held = Claim {
                token,
                ..waits.clone()
            };
            // A grant that is not renewed for a moment passes on.
            if self.renew(&held).await {
                return held;
            }
        }
    }

    /// Waits until the claim has lost its place.
    pub(crate) async fn until_stale(&mut self, waits: &Claim) {
        while !self.is_stale(waits).await {
            self.until_notified(waits).await;
        }
    }

    /// Waits for the next event because of which the claim should ask for the lock; at a quorum, not for
    /// long.
    pub(crate) async fn until_notified(&mut self, claim: &Claim) {
        let is_at_quorum = self.is_at_quorum;
        let notified = self.next(|event| match event {
            EngineEvent::Granted(grant) => (grant.token == claim.token).then_some(()),
            EngineEvent::AtFront(token) | EngineEvent::MayBeFree(token) => {
                (token == claim.token).then_some(())
            }
            EngineEvent::Resubscribed => Some(()),
            _ => None,
        });
        match is_at_quorum {
            true => _ = timeout(POLL, notified).await,
            false => notified.await,
        }
    }

    /// Returns what `find` makes of the first event of which it makes something.
    pub(crate) async fn next<T>(&mut self, find: impl Fn(EngineEvent) -> Option<T>) -> T {
        let next = async {
            loop {
                let event = self.events.recv().await.expect("the engine lives");
                if let Some(found) = find(event) {
                    return found;
                }
            }
        };
        timeout(LONG, next).await.expect("an event comes")
    }

    /// Waits until messages arrive, or no longer do.
    pub(crate) async fn until_resubscribed(&mut self) {
        self.next(|event| matches!(event, EngineEvent::Resubscribed).then_some(()))
            .await;
    }

    /// Returns what this process is asked next.
    pub(crate) async fn asked(&mut self) -> Arc<str> {
        self.next(|event| match event {
            EngineEvent::Asked(text) if !text.starts_with(PROBE) => Some(text),
            _ => None,
        })
        .await
    }

    /// Awaits an ask with that text, which comes next. Those that come from several members may repeat
    /// earlier ones.
    pub(crate) async fn hears(&mut self, text: &str) {
        loop {
            let asked = self.asked().await;
            if &*asked == text {
                return;
            }
            assert!(self.is_at_quorum, "{asked:?} comes instead of {text:?}");
        }
    }

    /// Waits until the process hears what the other one asks.
    pub(crate) async fn until_it_hears(&mut self, asker: &Peer) {
        let own = format!("{PROBE}{}", self.id);
        let hears = async {
            loop {
                asker.ask(&own).await;
                let heard = self.next(|event| match event {
                    EngineEvent::Asked(text) => (*text == *own).then_some(()),
                    _ => None,
                });
                if timeout(POLL, heard).await.is_ok() {
                    break;
                }
            }
        };
        timeout(LONG, hears).await.expect("it listens");
    }

    pub(crate) async fn ask(&self, text: &str) {
        sent(|| self.engine.ask(text, soon())).await;
    }

    pub(crate) async fn renew(&self, claim: &Claim) -> bool {
        let mut renewed = sent(|| self.engine.renew(from_ref(claim), soon())).await;
        renewed.pop().unwrap().unwrap()
    }

    pub(crate) async fn release(&self, claim: &Claim) -> bool {
        sent(|| self.engine.release(claim, soon())).await
    }

    pub(crate) async fn cancel(&self, claim: &Claim) -> bool {
        sent(|| self.engine.cancel(claim, false, soon())).await
    }

    /// Returns the claim that shares the lock in place of this one, or `None` if this one does not hold it.
    pub(crate) async fn downgrade(&self, claim: &Claim) -> Option<Claim> {
        let token = claim.token.again().with_limit(Limit::UNLIMITED);
        let downgraded = sent(|| self.engine.downgrade(claim, token, soon())).await;
        downgraded.map(|_| Claim {
            token,
            ..claim.clone()
        })
    }

    pub(crate) async fn number(&self, claim: &Claim) -> Option<u64> {
        sent(|| self.engine.fencing_token(claim, soon())).await
    }

    pub(crate) async fn take(&self, key: &str, token: &str) -> Taken {
        let name = self.name(key);
        sent(|| self.engine.take(&name, token, 0, soon())).await
    }

    pub(crate) async fn take_from(&self, claim: &Claim) -> Taken {
        let token = text(claim);
        sent(|| self.engine.take(&claim.name, &token, 0, soon())).await
    }

    /// Returns the tokens of the holders, sorted, and of the waiters.
    pub(crate) async fn view(&self, key: &str) -> [Vec<String>; 2] {
        let name = self.name(key);
        tokens(&sent(|| Box::pin(self.engine.view(&name, 99, soon()))).await)
    }

    /// Returns the keys of locks that begin so, sorted.
    pub(crate) async fn keys(&self, begin: &str, most: usize) -> Vec<String> {
        let prefix = self.name(begin);
        let names = sent(|| self.engine.names(&prefix, most, reading())).await;
        let keys = names.iter().map(|name| {
            assert!(name.starts_with(&prefix), "{name}");
            name[self.prefix.len()..].to_owned()
        });
        let mut keys: Vec<_> = keys.collect();
        keys.sort();
        keys
    }

    pub(crate) async fn report(&self, text: &str) {
        sent(|| self.engine.report(self.id, text.into(), soon())).await;
    }

    /// Returns the reports in the order of their processes.
    pub(crate) async fn reports(&self, of: Option<&[ProcessId]>) -> Vec<StoredReport> {
        let mut reports = sent(|| self.engine.reports(of, reading())).await;
        reports.sort_by_key(|report| report.process.0);
        reports
    }
}
