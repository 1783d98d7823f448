//! What processes tell of themselves.

use crate::config::Config;
use crate::engine::error::EngineErrorKind;
use crate::engine::operations::StoredReport;
use crate::engine::redis::tests::{Process, claim, soon};
use crate::process::ProcessId;
use lock_test_support::cluster::Cluster;
use lock_test_support::permissions;
use lock_test_support::server::Server;
use std::time::Duration;

async fn report(by: &Process, process: u32, text: &str) {
    let told = by.engine.report(ProcessId(process), text.into(), soon());
    told.await.unwrap();
}

async fn reports(by: &Process, of: Option<&[ProcessId]>) -> Vec<StoredReport> {
    let mut reports = by.engine.reports(of, soon()).await.unwrap();
    reports.sort_by_key(|report| report.process.0);
    reports
}

/// Returns the processes and their texts.
fn told(reports: &[StoredReport]) -> Vec<(u32, &str)> {
    let told = reports.iter().map(|it| (it.process.0, &*it.text));
    told.collect()
}

async fn a_report_replaces_the_earlier_one(url: String) {
    let process = Process::connect(url).await;
    assert!(reports(&process, None).await.is_empty());
    report(&process, 1, "first").await;
    report(&process, 0xfff_ffff, "other").await;
    report(&process, 1, "a\tb\n").await;
    let all = reports(&process, None).await;
    assert_eq!(told(&all), [(1, "a\tb\n"), (0xfff_ffff, "other")]);
    let is_new = |it: &StoredReport| it.age.unwrap() < Duration::from_secs(20);
    assert!(all.iter().all(is_new), "{all:?}");
    let some = reports(&process, Some(&[ProcessId(1), ProcessId(2)])).await;
    assert_eq!(told(&some), [(1, "a\tb\n")]);
    assert!(reports(&process, Some(&[])).await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_report_replaces_the_earlier_one_on_a_server() {
    let server = Server::start();
    a_report_replaces_the_earlier_one(server.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_report_replaces_the_earlier_one_on_a_cluster() {
    let cluster = Cluster::plan().without_replicas().start();
    a_report_replaces_the_earlier_one(cluster.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reports_of_more_processes_than_one_request_reads() {
    let server = Server::start();
    let process = Process::connect(server.url()).await;
    let ids: Vec<_> = (0..1200).map(ProcessId).collect();
    for id in &ids {
        report(&process, id.0, &id.to_string()).await;
    }
    for of in [None, Some(&ids[..])] {
        let all = reports(&process, of).await;
        let expected: Vec<_> = ids.iter().map(|id| (id.0, id.to_string())).collect();
        let expected: Vec<_> = expected.iter().map(|(id, text)| (*id, &**text)).collect();
        assert_eq!(told(&all), expected);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reports_expire_one_by_one_and_all_together() {
    let server = Server::start();
    let process = Process::connect(server.url()).await;
    report(&process, 1, "old").await;
    report(&process, 2, "new").await;
    let lives = |key| server.query::<i64>(&format!("PTTL lock:::{key}"));
    for key in ["reports", "processes"] {
        assert!((1..=180_000).contains(&lives(key)), "{key}");
    }
    let (seconds, _): (u64, u64) = server.query("TIME");
    let at = |age: u64| {
        format!(
            "ZADD lock:::processes XX {} 0000001",
            (seconds - age) * 1000
        )
    };
    server.query::<()>(&at(170));
    let all = reports(&process, None).await;
    let age = all[0].age.unwrap();
    assert!(age >= Duration::from_secs(170), "{age:?}");
    server.query::<()>(&at(181));
    assert_eq!(told(&reports(&process, None).await), [(2, "new")]);
    assert!(reports(&process, Some(&[ProcessId(1)])).await.is_empty());
    assert!(server.query::<bool>("HEXISTS lock:::reports 0000001"));
    report(&process, 2, "newer").await;
    assert!(!server.query::<bool>("HEXISTS lock:::reports 0000001"));
    assert_eq!(server.query::<usize>("ZCARD lock:::processes"), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hostile_report_harms_no_other() {
    let server = Server::start();
    let process = Process::connect(server.url()).await;
    report(&process, 1, "honest").await;
    let long = "é".repeat(1 << 20);
    let (seconds, _): (u64, u64) = server.query("TIME");
    let later = (seconds * 1000 + 1_000_000_000).to_string();
    for (id, score) in [
        ("0000002", &*later),
        ("0000003", "+inf"),
        ("000000G", &*later),
        ("ABCDEFF", &*later),
        ("", &*later),
        ("é\n", &*later),
        (&*long, &*later),
    ] {
        server
            .ask::<()>(&["ZADD", "lock:::processes", score, id])
            .unwrap();
        server
            .ask::<()>(&["HSET", "lock:::reports", id, &long])
            .unwrap();
    }
    server
        .ask::<()>(&["ZADD", "lock:::processes", &later, "0000004"])
        .unwrap();
    server
        .ask::<()>(&["HSET", "lock:::reports", "0000005", "no time"])
        .unwrap();
    let all = reports(&process, None).await;
    let ids: Vec<_> = all.iter().map(|it| it.process.0).collect();
    assert_eq!(ids, [1, 2, 3]);
    assert_eq!(&*all[0].text, "honest");
    for hostile in &all[1..] {
        assert_eq!(hostile.text.len(), 16 << 10);
        assert_eq!(hostile.age, Some(Duration::ZERO));
    }
    let of: Vec<_> = (1..6).map(ProcessId).collect();
    assert_eq!(told(&reports(&process, Some(&of)).await), told(&all));

    for key in ["lock:::reports", "lock:::processes"] {
        server.query::<()>(&format!("DEL {key}"));
        server.query::<()>(&format!("SET {key} nonsense"));
        assert!(reports(&process, None).await.is_empty());
        let told = process
            .engine
            .report(ProcessId(1), "1".into(), soon())
            .await;
        assert_eq!(told.unwrap_err().kind, EngineErrorKind::Rejected);
    }
    let mine = claim("door");
    process.hold(&mine).await;
    assert!(process.release(&mine).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reading_needs_no_right_to_write() {
    let server = Server::start();
    let [commands, _] = permissions::commands();
    let user = format!("ACL SETUSER clerk reset on >s3cret ~lock:* &lock:* {commands}");
    server.query::<()>(&user);
    let config = Config::new(server.url()).credentials("clerk", "s3cret");
    let process = Process::connect(config).await;
    report(&process, 1, "told").await;
    let reader = "ACL SETUSER clerk reset on >s3cret ~lock:* +@connection +eval +evalsha +time +type \
                  +zrevrangebyscore +zscore +hget";
    server.query::<()>(reader);
    assert_eq!(told(&reports(&process, None).await), [(1, "told")]);
    let error = process
        .engine
        .report(ProcessId(1), "again".into(), soon())
        .await
        .unwrap_err();
    assert_eq!(error.kind, EngineErrorKind::Rejected);
    assert!(error.to_string().contains("user"), "{error}");
    server.query::<()>("ACL SETUSER clerk -hget");
    let error = process.engine.reports(None, soon()).await.unwrap_err();
    assert_eq!(error.kind, EngineErrorKind::Rejected);
}
