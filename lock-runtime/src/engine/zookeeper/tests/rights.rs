//! Users who may not do everything.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::tests::peer::{Peer, reading, soon, text};
use crate::engine::tests::space::Space;
use lock_test_support::zookeeper::ZooKeeper;
use lock_test_support::zookeeper::client::Kind;

pub(super) const READ: i32 = 1;
const WRITE: i32 = 2;
const CREATE: i32 = 4;
const DELETE: i32 = 8;
const ADMIN: i32 = 16;
pub(super) const ALL: i32 = 31;

fn assert_refused<T: std::fmt::Debug>(result: Result<T, EngineError>) {
    let error = result.unwrap_err();
    assert_eq!(error.kind, EngineErrorKind::Rejected, "{error}");
    assert!(error.to_string().contains("access control list"), "{error}");
}

impl Peer {
    async fn lock_works(&mut self) {
        let held = self.hold("works").await;
        let waits = self.wait("works").await;
        assert!(self.release(&held).await);
        let granted = self.until_granted(&waits).await;
        assert!(self.release(&granted).await);
    }
}

/// The nodes of a user with credentials are its own: others may not even look at them.
pub(super) async fn operator_needs_the_credentials_of_the_services(space: Space) {
    let mut client = space.servers::<ZooKeeper>().client();
    // So that others can connect at all.
    client.create_all(&space.path("::sessions"));
    let user = async |name: &str| Peer::connect(space.config().credentials(name, "secret")).await;
    let (mut service, operator, stranger) = (
        user("service").await,
        user("service").await,
        user("stranger").await,
    );
    service.engine.listen();
    service.until_it_hears(&operator).await;
    service.report("hello").await;
    let held = service.hold("row").await;
    let (name, token) = (&*held.name, text(&held));

    let (engine, of) = (&stranger.engine, Some(&[service.id][..]));
    assert_refused(engine.view(name, 9, soon()).await);
    assert_refused(engine.reports(None, reading()).await);
    assert_refused(engine.reports(of, reading()).await);
    assert_refused(engine.report(stranger.id, "x".into(), soon()).await);
    assert_refused(engine.ask("x", soon()).await);
    assert_refused(engine.take(name, &token, 0, soon()).await);
    assert!(service.number(&held).await.is_some());
    // It counts their children, which needs no right.
    assert_eq!(stranger.keys("", 9).await, ["row"]);

    assert_eq!(operator.reports(None).await.len(), 1);
    operator.ask("x").await;
    service.hears("x").await;
    assert!(operator.take_from(&held).await.held);
}

/// Lists that an administrator has made: each right that is missing is missed by what needs it alone.
pub(super) async fn missing_rights_leave_locks_working(space: Space) {
    let mut client = space.servers::<ZooKeeper>().client();
    let path = |node| space.path(node);
    client.create_all(&path(""));
    for node in ["::asks", "::processes"] {
        let path = path(node);
        client.create_with(&path, Kind::Persistent, ADMIN).unwrap();
    }
    let [mut one, mut other] = space.peers().await;
    one.engine.listen();
    let report = async |of: &Peer| of.engine.report(of.id, "hello".into(), soon()).await;
    assert_refused(report(&one).await);
    assert_refused(one.engine.reports(None, reading()).await);
    assert_refused(one.engine.ask("x", soon()).await);
    let held = one.hold("row").await;
    one.lock_works().await;

    // Those who may read it listen, and those who may write it ask.
    client.allow(&path("::asks"), ADMIN | READ).unwrap();
    assert_refused(one.engine.ask("x", soon()).await);
    other.engine.listen();
    client.allow(&path("::asks"), ADMIN | READ | WRITE).unwrap();
    other.until_it_hears(&one).await;
    client.allow(&path("::processes"), ADMIN | READ).unwrap();
    assert_refused(report(&one).await);
    assert_eq!(one.reports(None).await, []);
    let writes = ADMIN | CREATE | DELETE;
    client.allow(&path("::processes"), writes).unwrap();
    report(&one).await.unwrap();
    assert_refused(other.engine.reports(None, reading()).await);

    // Taking needs to delete the claim.
    client.allow(&path("row"), ALL - DELETE).unwrap();
    let token = text(&held);
    assert_refused(other.engine.take(&held.name, &token, 0, soon()).await);
    assert!(one.number(&held).await.is_some());
    client.allow(&path("row"), ALL).unwrap();
    assert!(other.take_from(&held).await.held);
    assert!(one.is_stale(&held).await);

    // Names and views.
    let held = one.hold("row").await;
    client.allow(&path("row"), ALL - READ).unwrap();
    assert_refused(other.engine.view(&held.name, 9, soon()).await);
    client.allow(&path("row"), ALL).unwrap();
    client.allow(&path(""), ALL - READ).unwrap();
    assert_refused(other.engine.names(&space.prefix, 9, reading()).await);
    other.lock_works().await;
    client.allow(&path(""), ALL).unwrap();
    assert!(one.release(&held).await);
}
