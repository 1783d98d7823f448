//! What people see of the locks of a quorum and do to them.

use crate::config::Config;
use crate::engine::error::EngineErrorKind;
use crate::engine::event::EngineEvent;
use crate::engine::redis::tests::{Process, TTL, claim, soon, text};
use crate::engine::request::{Claim, EnqueueReply};
use crate::process::ProcessId;
use crate::util::time::deadline_in;
use lock_test_support::server::Server;
use lock_test_support::time::eventually;
use std::sync::Arc;
use std::time::Duration;

fn quorum(members: &[Server]) -> Config {
    Config::quorum(members.iter().map(Server::url))
}

fn three() -> Vec<Server> {
    (0..3).map(|_| Server::start()).collect()
}

impl Process {
    /// Waits until the claim holds the lock of a quorum, and returns it with the token that does.
    async fn elected(&mut self, waits: &Claim) -> Claim {
        loop {
            match self.enqueue(waits).await {
                EnqueueReply::GrantedAs(token, _) => {
                    let name = waits.name.clone();
                    return Claim {
                        token,
                        name,
                        ..*waits
                    };
                }
                EnqueueReply::Queued(_) => {}
                reply => panic!("{reply:?}"),
            }
            let read = |event| match event {
                EngineEvent::AtFront(_) | EngineEvent::MayBeFree(_) => Some(()),
                _ => None,
            };
            let poll = tokio::time::timeout(Duration::from_millis(50), self.next(read));
            let _ = poll.await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_of_a_quorum_is_taken() {
    let members = three();
    let mut stuck = Process::connect(quorum(&members)).await;
    let mut next = Process::connect(quorum(&members)).await;
    let mine = stuck.elected(&claim("door")).await;
    let first = stuck.number(&mine).await.unwrap();
    let waits = claim("door");
    next.wait(&waits).await;

    let (name, token) = ("lock:door", text(mine.token));
    let take = |at_least| next.engine.take(name, &token, at_least, soon());
    let taken = take(0).await.unwrap();
    assert!(taken.held && taken.fencing_token > first, "{taken:?}");
    // No member grants a lock by itself: the waiter is notified, and elected.
    for member in &members {
        assert!(!member.exists(name));
        assert_eq!(member.waiting("door"), 1);
    }
    let at_least = taken.fencing_token + 1_000_000_000;
    let again = take(at_least).await.unwrap();
    assert!(!again.held && again.fencing_token >= at_least, "{again:?}");

    let theirs = next.elected(&waits).await;
    assert!(next.number(&theirs).await.unwrap() > again.fencing_token);
    assert!(!stuck.renew(&mine).await);
    assert!(!stuck.release(&mine).await);
    assert!(next.renew(&theirs).await);
    assert!(next.release(&theirs).await);
    for member in &members {
        member.until_gone("lock:door");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reports_and_names_come_from_all_members() {
    let mut members = three();
    let process = Process::connect(quorum(&members)).await;
    let told = |text: &str| process.engine.report(ProcessId(1), text.into(), soon());
    told("old").await.unwrap();
    members[0].pause();
    let report = process
        .engine
        .report(ProcessId(1), "new".into(), deadline_in(TTL));
    report.await.unwrap();
    for (n, member) in (0..).zip(&members[1..]) {
        member.query::<()>(&format!("SET lock:{n} a"));
    }
    let names = process
        .engine
        .names("lock:", 9, deadline_in(TTL / 30))
        .await;
    assert_eq!(names.unwrap(), ["lock:0", "lock:1"].map(Arc::from));
    members[0].resume();
    let reports = process.engine.reports(None, soon()).await.unwrap();
    let [report] = &reports[..] else {
        panic!("{reports:?}");
    };
    assert_eq!((report.process, &*report.text), (ProcessId(1), "new"));

    members[0].kill();
    members[1].kill();
    let error = told("newer").await.unwrap_err();
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
    let mut process = Process::connect(quorum(&members)).await;
    process.engine.listen();
    members[2].restart();
    eventually("it listens to the third member", || {
        let heard: (String, usize) = members[2].query("PUBSUB NUMSUB lock:::asks");
        heard.1 == 1
    });
    let asks = Process::connect(quorum(&members)).await;
    members[0].kill();
    members[1].kill();
    asks.engine.ask("report", soon()).await.unwrap();
    let read = |event| match event {
        EngineEvent::Asked(text) => Some(text),
        _ => None,
    };
    assert_eq!(&*process.next(read).await, "report");
}
