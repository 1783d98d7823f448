//! The reports of processes.

use crate::engine::operations::{MAX_TEXT, Reading, StoredReport};
use crate::engine::tests::peer::{LONG, reading, soon, until};
use crate::engine::tests::space::Space;
use crate::process::ProcessId;
use crate::util::time::now;

/// Returns the processes and what they have reported.
fn reported(reports: &[StoredReport]) -> Vec<(ProcessId, &str)> {
    let reported = reports.iter().map(|it| (it.process, &*it.text));
    reported.collect()
}

pub(crate) async fn report_replaces_the_earlier_one(space: Space) {
    let [one, other, operator] = space.peers().await;
    assert_eq!(operator.reports(None).await, []);
    one.report("first").await;
    other.report("1\tä\\t\n").await;
    one.report("a\tb\n").await;
    let mut expected = [(one.id, "a\tb\n"), (other.id, "1\tä\\t\n")];
    expected.sort_by_key(|(process, _)| process.0);
    let all = operator.reports(None).await;
    assert_eq!(reported(&all), expected);
    let of = [ProcessId::random(), one.id];
    let some = operator.reports(Some(&of)).await;
    assert_eq!(reported(&some), [(one.id, "a\tb\n")]);
    assert_eq!(operator.reports(Some(&[])).await, []);

    if let Some(age) = some[0].age {
        assert!(age < LONG, "{age:?}");
        let is_older = async || operator.reports(Some(&of)).await[0].age > Some(age);
        until("it becomes older", is_older).await;
    }
    one.report("").await;
    let some = operator.reports(Some(&of)).await;
    assert_eq!(reported(&some), [(one.id, "")]);
}

pub(crate) async fn long_report_is_read_in_part(space: Space) {
    if !space.has_servers {
        return;
    }
    let [one, other] = space.peers().await;
    one.report(&"ä ".repeat(20_000)).await;
    other.report("short").await;
    for of in [None, Some(&[one.id, other.id][..])] {
        let reports = other.reports(of).await;
        let long = reports.iter().find(|it| it.process == one.id).unwrap();
        // The last character may be cut.
        assert!((MAX_TEXT - 3..=MAX_TEXT + 2).contains(&long.text.len()));
        assert!(long.text.starts_with("ä ä "));
        assert_eq!(reports.len(), 2);
    }
}

pub(crate) async fn report_ends_with_its_process(space: Space) {
    if !space.has_lines {
        return;
    }
    let [one, other, operator] = space.peers().await;
    one.report("one").await;
    other.report("other").await;
    one.engine.drain(soon()).await.unwrap();
    let is_alone = async || {
        let reports = operator.reports(None).await;
        reported(&reports) == [(other.id, "other")]
    };
    until("it ends", is_alone).await;
}

pub(crate) async fn reports_of_many_are_read_in_parts_until_the_end_of_the_time(space: Space) {
    let peer = space.peer().await;
    let ids: Vec<_> = (0..250).map(ProcessId).collect();
    for id in &ids {
        let reported = peer.engine.report(*id, id.to_string().into(), soon());
        reported.await.unwrap();
    }
    for of in [None, Some(&ids[..])] {
        let reports = peer.reports(of).await;
        assert!(reports.iter().map(|it| it.process).eq(ids.iter().copied()));
        assert!(reports.iter().all(|it| *it.text == it.process.to_string()));
        if space.has_servers {
            let over = Reading {
                until: now(),
                ..reading()
            };
            let error = peer.engine.reports(of, over).await.unwrap_err();
            assert!(error.is_retryable(), "{error}");
        }
    }
}
