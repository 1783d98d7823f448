//! Waiting in the line of a lock: the claim has a node, and is notified when its place may have changed.

use crate::engine::common::line::{Line, Place};
use crate::engine::error::EngineError;
use crate::engine::request::{Claim, EnqueueReply, QueueStatus, ServerTime};
use crate::engine::zookeeper::ZooKeeperEngine;
use crate::engine::zookeeper::conn::batch::in_flight::Watcher;
use crate::engine::zookeeper::lock::entry::Child;
use crate::engine::zookeeper::lock::look::{LineWatches, MAX_LOOKS, look};
use crate::engine::zookeeper::lock::node::{Node, Presence};
use crate::engine::zookeeper::lock::read::{data, data_in_reply, submit_data};
use crate::engine::zookeeper::wire::error::Failure;
use tokio::time::Instant;

/// The greatest number of watches of a claim that waits; with more it is notified of all changes to the lock.
const MAX_WATCHES: usize = 4;

impl ZooKeeperEngine {
    pub(crate) async fn enqueue(
        &self,
        claim: &Claim,
        _: Option<ServerTime>,
        deadline: Instant,
    ) -> Result<EnqueueReply, EngineError> {
        // A holder that has waited hears asks at once, as on servers whose grants come over the same
        // subscription.
        self.begin_to_listen();
        let (claims, claim) = (self.claims.clone(), claim.clone());
        let server_time = ServerTime(self.clock.now().elapsed_since(self.started));
        // Before anything is sent: a cancellation that comes next finds it.
        let node = claims.node(&claim);
        self.claims
            .run(deadline, async move {
                let Some(entered) = claims.enter(&node, deadline).await? else {
                    return Ok(EnqueueReply::Stale);
                };
                let place = match entered.is_alone {
                    Some(true) => Some(Place::Holds),
                    _ => follow_place_of(&node, &entered.name, deadline).await?,
                };
                Ok(match place {
                    Some(Place::Holds) => {
                        claims.secure(&node.session, claim.ttl, deadline).await?;
                        claims.nodes.expire_in(claim.token, claim.ttl);
                        claims.watch_for_others(&claim.name, &node);
                        EnqueueReply::Granted(claim.ttl)
                    }
                    Some(place @ Place::Waits { ahead, .. }) => {
                        if ahead == 0 {
                            claims.secure_ahead(&node.session, claim.ttl);
                        }
                        EnqueueReply::Queued(QueueStatus {
                            // The holder watches the line.
                            is_recalled: true,
                            ..place.status(server_time)
                        })
                    }
                    // Another client has deleted it.
                    None => {
                        node.set_presence(Presence::Gone);
                        EnqueueReply::Stale
                    }
                })
            })
            .await
    }
}

/// Returns the place of the claim with that name; `None` if it has no node. If it waits, it is notified when
/// its place may have changed.
async fn follow_place_of(
    node: &Node,
    name: &str,
    deadline: Instant,
) -> Result<Option<Place>, Failure> {
    if saw_sole_blocker_go(node, name) {
        return Ok(Some(Place::Holds));
    }
    let (token, is_own) = (node.token(), |child: &Child| child.name == name);
    for _ in 0..MAX_LOOKS {
        let watches_all = node.watches_all();
        let watches = match watches_all {
            true => LineWatches::All(token),
            false => LineWatches::First(token),
        };
        let line = look(&node.session, &node.lock, token.limit(), watches, deadline).await?;
        let place = line.as_ref().and_then(|line| line.place_of(is_own));
        let (Some(line), Some(Place::Waits { has_others, .. })) = (line, &place) else {
            return Ok(place);
        };
        // A claim that waits alone is notified of all changes: it wants to know when others wait, too.
        let wants_all = !has_others || line.blockers_of(is_own).len() > MAX_WATCHES;
        node.set_watches_all(wants_all);
        let is_complete = watches_all || !wants_all;
        if is_complete && watch_blockers(node, name, &line, deadline).await? {
            return Ok(place);
        }
    }
    Err(Failure::NoNode)
}

/// Returns `true` if only one claim was in the way of this one, and is gone: no claim can have come before it
/// meanwhile. Its own node has a watch, too, whose event would have come first if that node had been deleted
/// first.
fn saw_sole_blocker_go(node: &Node, name: &str) -> bool {
    node.take_blocker_gone() && node.session.is_watched(&node.path(name))
}

/// Has the claim notified when it may hold the lock. Returns `false` if that is so already, or its node is
/// gone.
async fn watch_blockers(
    node: &Node,
    name: &str,
    line: &Line<Child>,
    deadline: Instant,
) -> Result<bool, Failure> {
    let is_own = |child: &Child| child.name == name;
    match line.sole_blocker_of(is_own) {
        Some(blocker) => watch_sole_blocker(node, name, blocker, deadline).await,
        None if node.watches_all() => Ok(true),
        None => watch_each(node, &line.blockers_of(is_own), deadline).await,
    }
}

/// Has the claim notified when the only one is gone that is in its way. Returns `false` if that is gone
/// already, or the claim itself.
async fn watch_sole_blocker(
    node: &Node,
    name: &str,
    blocker: &Child,
    deadline: Instant,
) -> Result<bool, Failure> {
    let (session, own) = (&node.session, node.path(name));
    let is_watched = session.is_watched(&own);
    let watch_own = || submit_data(session, own, Some(Watcher::silent()), deadline);
    let own = (!is_watched).then(watch_own);
    let watcher = Watcher::new(node.token());
    node.set_blocker_gone(watcher.saw_end.clone());
    let blocker = data(session, node.path(&blocker.name), Some(watcher), deadline).await?;
    let own_exists = match own {
        Some(own) => data_in_reply(own).await?.is_some(),
        None => true,
    };
    Ok(own_exists && blocker.is_some())
}

/// Has the claim notified when one of those in its way is gone. Returns `false` if one is gone already.
async fn watch_each(node: &Node, blockers: &[&Child], deadline: Instant) -> Result<bool, Failure> {
    let mut all_exist = true;
    for blocker in blockers {
        let watcher = Some(Watcher::new(node.token()));
        let data = data(&node.session, node.path(&blocker.name), watcher, deadline).await?;
        all_exist &= data.is_some();
    }
    Ok(all_exist)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::engine::common::batches::Batches;
    use crate::engine::common::pace::MIN_TIMEOUT;
    use crate::engine::timeouts::Timeouts;
    use crate::engine::token::Token;
    use crate::engine::zookeeper::address::Address;
    use crate::engine::zookeeper::conn::session::SessionContext;
    use crate::engine::zookeeper::conn::session_limits::SessionLimits;
    use crate::engine::zookeeper::conn::sessions::Sessions;
    use crate::engine::zookeeper::lock::claims::Claims;
    use crate::process::ProcessId;
    use crate::util::clock::Clock;
    use crate::util::io_thread::IoThread;
    use crate::util::time::deadline_in;
    use std::pin::pin;
    use std::sync::{Arc, OnceLock};
    use std::task::{Context, Waker};
    use std::time::Duration;

    /// Returns an engine without servers.
    fn engine() -> ZooKeeperEngine {
        let config = Config::new("zookeeper://127.0.0.1:1");
        let (io, clock) = (IoThread::start().unwrap(), Clock::manual());
        let context = SessionContext {
            io,
            address: Address::parse("zookeeper://127.0.0.1:1", &config).unwrap(),
            timeouts: Timeouts::of(&config),
            first_try: MIN_TIMEOUT,
            clock: clock.clone(),
            handler: Arc::new(|_| {}),
            tick: Duration::from_secs(2),
        };
        let limits = SessionLimits {
            shortest: Duration::from_secs(4),
            longest: Duration::from_secs(40),
        };
        ZooKeeperEngine {
            claims: Claims::new(Sessions::new(context, limits), &config),
            address: "zookeeper://127.0.0.1:1".into(),
            started: clock.now(),
            clock,
            default_ttl: Duration::from_secs(30),
            own_report: Arc::default(),
            process: ProcessId::random(),
            asks: OnceLock::new(),
            recalls: OnceLock::new(),
            texts: Batches::default(),
        }
    }

    /// A claim that is abandoned as soon as it is asked for can be canceled.
    #[tokio::test]
    async fn a_cancellation_finds_a_claim_that_is_being_made() {
        let engine = engine();
        for _ in 0..100 {
            let claim = Claim {
                name: "lock:row".into(),
                token: Token::random(),
                ttl: Duration::from_secs(1),
                replicas: 0,
            };
            let soon = || deadline_in(Duration::from_millis(20));
            {
                let mut enqueue = pin!(engine.enqueue(&claim, None, soon()));
                let mut context = Context::from_waker(Waker::noop());
                assert!(enqueue.as_mut().poll(&mut context).is_pending());
                assert!(engine.claims.nodes.get(claim.token).is_some());
            }
            let had_node = engine.release(&claim, deadline_in(Duration::from_secs(9)));
            assert!(!had_node.await.unwrap());
            assert!(engine.claims.nodes.get(claim.token).is_none());
        }
    }
}
