//! What people see of the locks of a quorum and do to them.

use crate::config::Config;
use crate::engine::error::EngineErrorKind;
use crate::engine::tests::peer::{Peer, soon};
use crate::engine::tests::space::Space;
use crate::process::ProcessId;
use lock_test_support::server::Server;
use lock_test_support::time::eventually;

pub(super) fn three() -> Vec<Server> {
    (0..3).map(|_| Server::start()).collect()
}

async fn connect(members: &[Server]) -> Peer {
    Peer::connect(Config::quorum(members.iter().map(Server::url))).await
}

/// No member grants a lock by itself: the waiter is notified, and elected.
pub(super) async fn a_taken_lock_is_free_at_all_members(space: Space) {
    let (members, name) = (space.servers::<Vec<Server>>(), space.name("door"));
    let [stuck, mut next] = space.peers().await;
    let held = stuck.hold("door").await;
    let waits = next.wait("door").await;
    assert!(next.take_from(&held).await.held);
    for member in &*members {
        assert!(!member.exists(&name));
    }
    let granted = next.until_granted(&waits).await;
    assert!(!stuck.release(&held).await);
    assert!(next.release(&granted).await);
    for member in &*members {
        member.until_gone(&name);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reports_and_names_come_from_all_members() {
    let mut members = three();
    let process = connect(&members).await;
    let reported = |text: &str| process.engine.report(ProcessId(1), text.into(), soon());
    reported("old").await.unwrap();
    members[0].pause();
    reported("new").await.unwrap();
    members[0].resume();
    let reports = process.reports(None).await;
    let [report] = &reports[..] else {
        panic!("{reports:?}");
    };
    assert_eq!((report.process, &*report.text), (ProcessId(1), "new"));

    for (n, member) in (0..).zip(&members[1..]) {
        member.query::<()>(&format!("SET lock:{n} a"));
    }
    members[0].kill();
    assert_eq!(process.keys("", 9).await, ["0", "1"]);
    members[1].kill();
    let error = reported("newer").await.unwrap_err();
    assert!(error.kind != EngineErrorKind::Rejected, "{error}");
    for member in &members[2..] {
        member.query::<()>("FLUSHALL");
    }
}

/// It suffices that one member carries the ask, and one that is reached late is listened to then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ask_reaches_a_process_by_any_member() {
    let mut members = three();
    members[2].kill();
    let mut process = connect(&members).await;
    process.engine.listen();
    members[2].restart();
    eventually("it listens to the third member", || {
        let heard: (String, usize) = members[2].query("PUBSUB NUMSUB lock:::asks");
        heard.1 == 1
    });
    let asks = connect(&members).await;
    members[0].kill();
    members[1].kill();
    asks.ask("report").await;
    process.hears("report").await;
}
