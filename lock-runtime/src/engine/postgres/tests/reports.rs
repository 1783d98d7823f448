use super::Space;
use crate::engine::tests::peer::{Peer, soon};
use crate::process::ProcessId;
use lock_test_support::servers::Pooled;

async fn report(peer: &Peer, id: ProcessId, text: &str) {
    let reported = peer.engine.report(id, text.into(), soon());
    reported.await.unwrap();
}

pub(super) async fn old_reports_vanish(space: Space) {
    let peer = space.peer().await;
    for n in 1..=3 {
        report(&peer, ProcessId(n), "report").await;
    }
    space.execute(
        "UPDATE distributed_lock.process SET seen_at = now() - interval '181 s' WHERE id < '0000003'",
    );
    assert_eq!(peer.reports(None).await.len(), 1);
    // A report that another transaction has does not keep this one waiting.
    let mut client = space.servers::<Pooled>().server.client().await;
    let transaction = client.transaction().await.unwrap();
    let lock = "SELECT FROM distributed_lock.process WHERE id = '0000001' FOR UPDATE";
    transaction.batch_execute(&space.sql(lock)).await.unwrap();
    report(&peer, ProcessId(3), "report").await;
    assert_eq!(space.count("process"), 2);
    transaction.commit().await.unwrap();
    report(&peer, ProcessId(3), "report").await;
    assert_eq!(space.count("process"), 1);
}

pub(super) async fn whatever_is_stored_is_read_in_part(space: Space) {
    let peer = space.peer().await;
    report(&peer, ProcessId(1), &"ä ".repeat(20_000)).await;
    space.execute(
        "INSERT INTO distributed_lock.process SELECT id, report, clock_timestamp() FROM (VALUES
            ('0000002', repeat('€', 100000)), ('0000003', ''), ('', 'x'), ('-000001', 'x'), ('00000AB', 'x'),
            ('+0000ab', 'x'), ('00000abc', 'x'), (repeat('a', 500), 'x'), ('ä00001', 'x')) hostile(id, report);
         INSERT INTO distributed_lock.process VALUES ('0000004', 'x', 'infinity'), ('0000005', 'x', '-infinity')",
    );
    let found = peer.reports(None).await;
    let ids: Vec<u32> = found.iter().map(|report| report.process.0).collect();
    assert_eq!(ids, [1, 2, 3]);
    assert!(found[..2].iter().all(|it| it.text.len() <= 16 * 1024 + 2));
    assert!(found[0].text.starts_with("ä ä ") && found[1].text.starts_with("€€€"));
    assert_eq!(&*found[2].text, "");
}

pub(super) async fn no_more_than_ten_thousand_are_read(space: Space) {
    let peer = space.peer().await;
    report(&peer, ProcessId(1), "report").await;
    space.execute(
        "INSERT INTO distributed_lock.process
            SELECT lpad(to_hex(n), 7, '0'), 'x', clock_timestamp() FROM generate_series(2, 11000) n",
    );
    assert_eq!(peer.reports(None).await.len(), 10_000);
}
