//! The reports of processes.

use crate::engine::error::EngineErrorKind;
use crate::engine::operations::StoredReport;
use crate::engine::tests::peer::{Peer, reading, soon};
use crate::engine::tests::space::Space;
use crate::process::ProcessId;
use crate::util::join_all::join_all;
use std::time::Duration;

async fn report(by: &Peer, process: u32, text: &str) {
    let reported = by.engine.report(ProcessId(process), text.into(), soon());
    reported.await.unwrap();
}

/// Returns the keys of the reports, and of their times.
fn stored(space: &Space) -> [String; 2] {
    ["reports", "processes"].map(|kind| format!("{}::{kind}", space.prefix))
}

/// Returns the processes and their texts.
fn reported(reports: &[StoredReport]) -> Vec<(u32, &str)> {
    let reported = reports.iter().map(|it| (it.process.0, &*it.text));
    reported.collect()
}

pub(super) async fn reports_of_more_processes_than_one_request_reads(space: Space) {
    let process = space.peer().await;
    let all: Vec<_> = (0..1200).map(|id: u32| (id, id.to_string())).collect();
    join_all(all.iter().map(|(id, text)| report(&process, *id, text))).await;
    let ids: Vec<_> = all.iter().map(|(id, _)| ProcessId(*id)).collect();
    for of in [None, Some(&ids[..])] {
        let found = process.reports(of).await;
        let expected = all.iter().map(|(id, text)| (*id, &**text));
        assert!(reported(&found).into_iter().eq(expected), "{found:?}");
    }
}

pub(super) async fn reports_expire_one_by_one_and_all_together(space: Space) {
    let (server, process) = (space.server(), space.peer().await);
    let [reports, processes] = stored(&space);
    report(&process, 1, "old").await;
    report(&process, 2, "new").await;
    for key in [&reports, &processes] {
        let lives: i64 = server.query(&format!("PTTL {key}"));
        assert!((1..=180_000).contains(&lives), "{key}");
    }
    let (seconds, _): (u64, u64) = server.query("TIME");
    let store_at = |age: u64| {
        let at = (seconds - age) * 1000;
        server.query::<()>(&format!("ZADD {processes} XX {at} 0000001"));
    };
    store_at(100);
    let age = process.reports(None).await[0].age.unwrap();
    assert!(age >= Duration::from_secs(100), "{age:?}");
    store_at(181);
    assert_eq!(reported(&process.reports(None).await), [(2, "new")]);
    assert_eq!(process.reports(Some(&[ProcessId(1)])).await, []);
    let is_stored = || server.query::<bool>(&format!("HEXISTS {reports} 0000001"));
    assert!(is_stored());
    report(&process, 2, "newer").await;
    assert!(!is_stored());
    assert_eq!(server.query::<usize>(&format!("ZCARD {processes}")), 1);
}

pub(super) async fn a_hostile_report_harms_no_other(space: Space) {
    let (server, process) = (space.server(), space.peer().await);
    let [reports, processes] = stored(&space);
    report(&process, 1, "honest").await;
    let long = "é".repeat(1 << 20);
    let (seconds, _): (u64, u64) = server.query("TIME");
    let later = (seconds * 1000 + 1_000_000_000).to_string();
    let store_at = |score: &str, id: &str| {
        let words = ["ZADD", &processes, score, id];
        server.ask::<()>(&words).unwrap();
    };
    let store = |id: &str, text: &str| {
        let words = ["HSET", &reports, id, text];
        server.ask::<()>(&words).unwrap();
    };
    for id in ["0000002", "0000003", "000000G", "ABCDEFF", "", "é\n", &long] {
        let at = if id == "0000003" { "+inf" } else { &later };
        store_at(at, id);
        store(id, &long);
    }
    store_at(&later, "0000004");
    store("0000005", "no time");
    let all = process.reports(None).await;
    let ids: Vec<_> = all.iter().map(|it| it.process.0).collect();
    assert_eq!(ids, [1, 2, 3]);
    assert_eq!(&*all[0].text, "honest");
    for hostile in &all[1..] {
        assert_eq!(hostile.text.len(), 16 << 10);
        assert_eq!(hostile.age, Some(Duration::ZERO));
    }
    let of: Vec<_> = (1..6).map(ProcessId).collect();
    assert_eq!(reported(&process.reports(Some(&of)).await), reported(&all));

    for key in [&reports, &processes] {
        server.query::<()>(&format!("DEL {key}"));
        server.query::<()>(&format!("SET {key} nonsense"));
        assert_eq!(process.reports(None).await, []);
        let reported = process.engine.report(ProcessId(1), "1".into(), soon());
        assert_eq!(reported.await.unwrap_err().kind, EngineErrorKind::Rejected);
    }
    let held = process.hold("door").await;
    assert!(process.release(&held).await);
}

pub(super) async fn reading_needs_no_right_to_write(space: Space) {
    space.grant_locks(&format!("&{}*", space.prefix));
    let process = space.peer_of_user().await;
    report(&process, 1, "here").await;
    let rights = "+@connection +eval +evalsha +time +type +zrevrangebyscore +zscore +hget";
    let keys = format!("~{}*", space.prefix);
    space.grant(&format!("reset on >s3cret {keys} {rights}"));
    assert_eq!(reported(&process.reports(None).await), [(1, "here")]);
    let error = process.engine.report(ProcessId(1), "again".into(), soon());
    let error = error.await.unwrap_err();
    assert_eq!(error.kind, EngineErrorKind::Rejected);
    assert!(error.to_string().contains("user"), "{error}");
    space.grant("-hget");
    let error = process.engine.reports(None, reading()).await.unwrap_err();
    assert_eq!(error.kind, EngineErrorKind::Rejected);
}
