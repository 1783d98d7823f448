//! Users who may not do everything.

use super::{Peer, soon};
use crate::config::Config;
use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::operations::Operations;
use crate::limit::Limit;
use lock_test_support::zookeeper::ZooKeeper;
use lock_test_support::zookeeper::client::Kind;

const READ: i32 = 1;
const WRITE: i32 = 2;
const CREATE: i32 = 4;
const DELETE: i32 = 8;
const ALL: i32 = 31;

fn assert_refused<T: std::fmt::Debug>(result: Result<T, EngineError>) {
    let error = result.unwrap_err();
    assert_eq!(error.kind, EngineErrorKind::Rejected, "{error}");
    assert!(error.to_string().contains("access control list"), "{error}");
}

impl Peer {
    async fn lock_works(&mut self) {
        let (one, other) = (
            self.claim("works", Limit::EXCLUSIVE),
            self.claim("works", Limit::EXCLUSIVE),
        );
        assert!(self.enter(&one).await);
        assert!(!self.enter(&other).await);
        assert!(self.engine.release(&one, soon()).await.unwrap());
        assert!(self.enter_when_notified(&other).await);
        assert!(self.engine.release(&other, soon()).await.unwrap());
    }
}

/// The nodes of a user with credentials are nobody else's: not even to look at.
#[tokio::test(flavor = "multi_thread")]
async fn operator_needs_the_credentials_of_the_services() {
    let zookeeper = ZooKeeper::start();
    let mut client = zookeeper.client();
    // So that others can connect at all.
    client.create_all("/lock/::sessions");
    let user = |name: &str| Config::new(zookeeper.url()).credentials(name, "secret");
    let (mut service, operator, stranger) = (
        Peer::with(user("service")).await,
        Peer::with(user("service")).await,
        Peer::with(user("stranger")).await,
    );
    service.until_it_listens(&operator).await;
    let report = service
        .engine
        .report(service.process, "hello".into(), soon());
    report.await.unwrap();
    let held = service.claim("row", Limit::EXCLUSIVE);
    assert!(service.enter(&held).await);
    let token = held.token.encode(&mut [0; 37]).to_owned();

    let of = Some(&[service.process][..]);
    let engine: &dyn Operations = &*stranger.engine;
    assert_refused(engine.view("lock:row", 9, soon()).await);
    assert_refused(engine.reports(None, soon()).await);
    assert_refused(engine.reports(of, soon()).await);
    assert_refused(engine.report(stranger.process, "x".into(), soon()).await);
    assert_refused(engine.ask("x", soon()).await);
    assert_refused(engine.take("lock:row", &token, 0, soon()).await);
    assert!(service.fencing_token(&held).await.is_some());
    // It counts their children, which needs no right.
    assert_eq!(
        &*engine.names("lock:", 9, soon()).await.unwrap()[0],
        "lock:row"
    );

    assert_eq!(
        operator.engine.reports(None, soon()).await.unwrap().len(),
        1
    );
    operator.engine.ask("x", soon()).await.unwrap();
    assert_eq!(&*service.asked().await, "x");
    let taken = operator.engine.take("lock:row", &token, 0, soon()).await;
    assert!(taken.unwrap().held);
}

/// Lists that an administrator has made: each right that is missing is missed by what needs it alone.
#[tokio::test(flavor = "multi_thread")]
async fn missing_rights_leave_locks_working() {
    let zookeeper = ZooKeeper::start();
    let mut client = zookeeper.client();
    client.create_all("/lock");
    for node in ["::asks", "::processes"] {
        let path = format!("/lock/{node}");
        client.create_with(&path, Kind::Persistent, 16).unwrap();
    }
    let url = zookeeper.url();
    let (mut one, mut other) = (Peer::connect(&url).await, Peer::connect(&url).await);
    one.engine.listen();
    let report = |peer: &Peer| {
        let (engine, process) = (peer.engine.clone(), peer.process);
        async move { engine.report(process, "hello".into(), soon()).await }
    };
    assert_refused(report(&one).await);
    assert_refused(one.engine.reports(None, soon()).await);
    assert_refused(one.engine.ask("x", soon()).await);
    let held = one.claim("row", Limit::EXCLUSIVE);
    assert!(one.enter(&held).await);
    let token = held.token.encode(&mut [0; 37]).to_owned();
    let take = |peer: &Peer| {
        let engine = peer.engine.clone();
        let token = token.clone();
        async move { engine.take("lock:row", &token, 0, soon()).await }
    };
    one.lock_works().await;

    // Those who may read it listen, and those who may write it ask.
    client.allow("/lock/::asks", 16 | READ).unwrap();
    assert_refused(one.engine.ask("x", soon()).await);
    other.engine.listen();
    client.allow("/lock/::asks", 16 | READ | WRITE).unwrap();
    other.until_it_listens(&one).await;
    client.allow("/lock/::processes", 16 | READ).unwrap();
    assert_refused(report(&one).await);
    assert_eq!(one.engine.reports(None, soon()).await.unwrap(), []);
    client
        .allow("/lock/::processes", 16 | CREATE | DELETE)
        .unwrap();
    report(&one).await.unwrap();
    assert_refused(other.engine.reports(None, soon()).await);

    // Taking needs to delete the claim.
    client.allow("/lock/row", ALL - DELETE).unwrap();
    assert_refused(take(&other).await);
    assert!(one.fencing_token(&held).await.is_some());
    client.allow("/lock/row", ALL).unwrap();
    let taken = take(&other).await.unwrap();
    assert!(taken.held);
    assert!(one.is_stale(&held).await);

    // Names and views.
    assert!(one.enter(&one.claim("row", Limit::EXCLUSIVE)).await);
    client.allow("/lock/row", ALL - READ).unwrap();
    assert_refused(other.engine.view("lock:row", 9, soon()).await);
    client.allow("/lock/row", ALL).unwrap();
    client.allow("/lock", ALL - READ).unwrap();
    assert_refused(other.engine.names("lock:", 9, soon()).await);
    other.lock_works().await;
}
