//! Waiting in the line of a lock: the claim has a node, and is notified when its place may have changed.

use crate::engine::common::line::Place;
use crate::engine::error::EngineError;
use crate::engine::request::{Claim, EnqueueReply, ServerTime};
use crate::engine::zookeeper::ZooKeeperEngine;
use crate::engine::zookeeper::lock::node::Presence;
use crate::engine::zookeeper::lock::watches::follow_place_of;
use tokio::time::Instant;

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
                        EnqueueReply::Granted(claim.ttl)
                    }
                    Some(place @ Place::Waits { ahead, .. }) => {
                        if ahead == 0 {
                            claims.secure_ahead(&node.session, claim.ttl);
                        }
                        EnqueueReply::Queued(place.status(server_time))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::engine::common::pace::MIN_TIMEOUT;
    use crate::engine::timeouts::Timeouts;
    use crate::engine::token::Token;
    use crate::engine::zookeeper::address::Address;
    use crate::engine::zookeeper::conn::session::SessionContext;
    use crate::engine::zookeeper::conn::session_limits::SessionLimits;
    use crate::engine::zookeeper::conn::sessions::Sessions;
    use crate::engine::zookeeper::lock::claims::Claims;
    use crate::util::clock::Clock;
    use crate::util::io_thread::IoThread;
    use crate::util::time::deadline_in;
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;
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
            claims: Claims::new(Sessions::new(context, io, limits), io, &config),
            address: "zookeeper://127.0.0.1:1".into(),
            started: clock.now(),
            clock,
            default_ttl: Duration::from_secs(30),
            own_report: Arc::default(),
            listens: AtomicBool::new(false),
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
