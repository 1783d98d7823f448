//! Reports of processes.

use crate::engine::operations::{Reading, StoredReport};
use crate::engine::tests::peer::{LONG, Peer, soon, until};
use crate::engine::tests::space::Space;
use crate::process::ProcessId;
use crate::util::clock::Clock;
use lock_test_support::etcd::Etcd;
use std::io::Write;
use std::process::Stdio;
use std::sync::Arc;

/// It is on a lease that the process has anyway, and on that of the next connection from then on.
pub(super) async fn a_report_lives_as_long_as_its_process_is_connected(space: Space) {
    let etcd = space.servers::<Etcd>();
    let (network, mut one) = space.distant_peer().await.unwrap();
    let operator = space.peer().await;
    let key = format!("{}::process:{}", space.prefix, one.id);
    let lease = || {
        let fields = etcd.ctl(&["get", &key, "-w", "fields"]);
        let mut lines = fields.lines();
        let lease = lines.find_map(|line| line.strip_prefix("\"Lease\" : "));
        lease.map(str::to_owned)
    };
    one.report("first").await;
    let before = lease().unwrap();
    one.report("second").await;
    assert_eq!(lease().unwrap(), before);
    let is_reported = async |one: &Peer| {
        let [report] = &operator.reports(Some(&[one.id])).await[..] else {
            panic!("it is reported once");
        };
        let found = (report.process, &*report.text, report.age);
        assert_eq!(found, (one.id, "second", None));
    };
    is_reported(&one).await;
    one.connect_again(&network).await;
    let is_stored_again = async || lease().is_some_and(|lease| lease != before);
    until("it is stored again", is_stored_again).await;
    let id = format!("{:x}", before.parse::<i64>().unwrap());
    etcd.ctl(&["lease", "revoke", &id]);
    is_reported(&one).await;
}

pub(super) async fn nonsense_in_the_place_of_reports_is_skipped(space: Space) {
    let etcd = space.servers::<Etcd>();
    let [one, other] = space.peers().await;
    // A busy machine takes long to read so much.
    let config = space.config().connect_timeout(LONG);
    let operator = Peer::with(config.command_timeout(LONG * 4), Clock::System).await;
    let read = async |of: Option<&[ProcessId]>| {
        let reports = operator.engine.reports(of, Reading::begin(LONG * 4));
        reports.await.unwrap()
    };
    one.report("here").await;
    other.report(&"x".repeat(20_000)).await;
    let put = |id: &str, value: &[u8]| {
        let key = format!("{}::process:{id}", space.prefix);
        let mut command = etcd.command(&["put", &key]);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::null());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(value).unwrap();
        assert!(child.wait().unwrap().success());
    };
    for id in ["", "1", "7BE01C5", "7be01c5/", "zzzzzzz", "7be01c5\n"] {
        put(id, b"nonsense");
    }
    // More than a page, and more than a reply may have if it were one.
    let huge: Arc<str> = "x".repeat(1_400_000).into();
    for id in 0..49 {
        let report = other.engine.report(ProcessId(id), huge.clone(), soon());
        report.await.unwrap();
    }
    put("0000031", &vec![0xff; 1_400_000]);
    let found = read(None).await;
    assert_eq!(found.len(), 52);
    let is_short = |report: &StoredReport| report.text.chars().count() <= 16 << 10;
    assert!(found.iter().all(is_short));
    let others: Vec<_> = found.iter().filter(|it| it.process.0 >= 50).collect();
    assert!(others.iter().any(|report| &*report.text == "here"));
    assert!(others.iter().any(|report| report.text.len() == 16 << 10));
    let ids: Vec<_> = (0..50).map(ProcessId).collect();
    assert_eq!(read(Some(&ids)).await.len(), 50);
}
