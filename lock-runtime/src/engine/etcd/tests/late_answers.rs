//! Leases that are kept alive by a server that answers late.

use crate::config::Config;
use crate::engine::background_release::ReleaseSupervisor;
use crate::engine::etcd::tests::scripted_server::{DELAY, ScriptedServer};
use crate::engine::request::{Attempt, Claim};
use crate::limit::Limit;
use crate::util::clock::Clock;
use crate::util::io_thread::IoThread;
use crate::util::time::deadline_in;
use std::sync::Arc;
use std::time::Duration;

const TTL: Duration = Duration::from_secs(1);

/// For calls that nothing interrupts.
struct Unused;

impl ReleaseSupervisor for Unused {
    fn begun(&self) {}
    fn confirmed(&self, _claim: &Claim, _was_owner: bool, _was_held: bool) {}
    fn unconfirmed(self: Arc<Self>, _claim: Claim, _was_held: bool, _may_have_run: bool) {}
}

/// The server may have renewed the lease as soon as it was asked.
#[tokio::test]
async fn a_lease_counts_from_before_the_request_that_kept_it_alive() {
    let (server, clock) = (ScriptedServer::start().await, Clock::manual());
    server.be_slow(clock.clone());
    let config = Config::new(server.url());
    let io = IoThread::start().unwrap();
    let opened = config.open(io, clock.clone(), Arc::new(|_| {})).await;
    let (engine, _) = opened.unwrap();
    let attempt = Attempt {
        name: "lock:row".into(),
        ttl: TTL,
        replicas: 0,
        limit: Limit::EXCLUSIVE,
        waits: false,
        others: None,
    };
    let soon = || deadline_in(Duration::from_secs(9));
    let supervisor: Arc<dyn ReleaseSupervisor> = Arc::new(Unused);
    let acquired = engine.acquire(&attempt, &supervisor, soon()).await.unwrap();
    let claim = attempt.claim(acquired.expect("it is free").token);
    // A lease that was proven just now is not kept alive.
    clock.advance(TTL / 4, TTL / 4);
    let renewed = engine.renew(std::slice::from_ref(&claim), soon()).await;
    assert!(renewed.unwrap().remove(0).unwrap());
    assert!(server.kept_alive() > 0);
    let now = clock.now();
    let lease = engine.lease(claim.token, now, TTL);
    let left = lease.remaining(now);
    assert!(left <= TTL - DELAY, "{left:?}");
    assert!(left > Duration::ZERO);
    assert!(engine.release(&claim, soon()).await.unwrap());
}
