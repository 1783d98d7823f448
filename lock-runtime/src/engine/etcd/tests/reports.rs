//! Reports of processes.

use super::process::{Process, three};
use crate::engine::operations::StoredReport;
use crate::process::ProcessId;
use lock_test_support::etcd::Etcd;
use lock_test_support::proxy::Proxy;
use lock_test_support::time::eventually;
use std::io::Write;
use std::process::Stdio;

#[tokio::test(flavor = "multi_thread")]
async fn a_report_lives_as_long_as_its_process_is_connected() {
    let etcd = Etcd::start();
    let path = Proxy::to(etcd.port(0));
    let mut one = Process::connect(format!("etcd://127.0.0.1:{}", path.port())).await;
    let [other, _, operator] = three(&etcd).await;
    assert!(operator.reports(None).await.is_empty());
    let leases = etcd.ctl(&["lease", "list"]);
    one.report("first").await;
    one.report("second").await;
    other.report("other").await;
    assert_eq!(etcd.ctl(&["lease", "list"]), leases);
    let report = |process: &Process, text: &str| StoredReport {
        process: process.id,
        text: text.into(),
        age: None,
    };
    let mut both = [report(&one, "second"), report(&other, "other")];
    both.sort_by_key(|report| report.process.0);
    assert_eq!(operator.reports(None).await, both);
    let of = [ProcessId::random(), one.id];
    assert_eq!(operator.reports(Some(&of)).await, [report(&one, "second")]);
    assert!(operator.reports(Some(&[])).await.is_empty());

    let key = format!("lock:::process:{}", one.id);
    let stored = || {
        let fields = etcd.ctl(&["get", &key, "-w", "fields"]);
        let lease = fields
            .lines()
            .find_map(|line| line.strip_prefix("\"Lease\" : "));
        lease.map(str::to_owned)
    };
    let before = stored().unwrap();
    one.connect_again(&path).await;
    eventually("it is stored again", || stored().unwrap() != before);
    etcd.ctl(&[
        "lease",
        "revoke",
        &format!("{:x}", before.parse::<i64>().unwrap()),
    ]);
    assert_eq!(
        operator.reports(Some(&[one.id])).await,
        [report(&one, "second")]
    );
    one.end().await;
    other.end().await;
    assert!(operator.reports(None).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn nonsense_in_the_place_of_reports_is_skipped() {
    let etcd = Etcd::start();
    let [one, other, operator] = three(&etcd).await;
    one.report("here").await;
    other.report(&"x".repeat(20_000)).await;
    let put = |id: &str, value: &[u8]| {
        let mut command = etcd.command(&["put", &format!("lock:::process:{id}")]);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::null());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(value).unwrap();
        assert!(child.wait().unwrap().success());
    };
    for id in ["", "1", "7BE01C5", "7be01c5/", "zzzzzzz", "7be01c5\n"] {
        put(id, b"nonsense");
    }
    // More than a page, and more than a reply may have if it were one.
    let huge = vec![0xff; 1_400_000];
    for id in 0..50 {
        put(&format!("{id:07x}"), &huge);
    }
    let found = operator.reports(None).await;
    assert_eq!(found.len(), 52);
    assert!(
        found
            .iter()
            .all(|report| report.text.chars().count() <= 16 << 10)
    );
    let others: Vec<_> = found
        .iter()
        .filter(|report| report.process.0 >= 50)
        .collect();
    assert!(others.iter().any(|report| &*report.text == "here"));
    assert!(others.iter().any(|report| report.text.len() == 16 << 10));
    let ids: Vec<_> = (0..50).map(ProcessId).collect();
    assert_eq!(operator.reports(Some(&ids)).await.len(), 50);
}
