use super::{Process, soon};
use crate::engine::operations::StoredReport;
use crate::process::ProcessId;
use lock_test_support::postgres::Postgres;
use lock_test_support::time::millis;

async fn all(process: &Process) -> Vec<StoredReport> {
    process.reports(None, soon()).await.unwrap()
}

async fn tell(process: &Process, id: ProcessId, text: &str) {
    process.report(id, text.into(), soon()).await.unwrap();
}

#[tokio::test]
async fn report_is_replaced_and_read() {
    let server = Postgres::start();
    let process = Process::of(&server).await;
    let ids = [ProcessId(0), ProcessId(0xabc), ProcessId(0xfff_ffff)];
    for id in ids {
        tell(&process, id, "first").await;
        tell(&process, id, &format!("1\tä\\t\n{id}\n")).await;
    }
    let mut found = all(&process).await;
    found.sort_by_key(|report| report.process.0);
    assert_eq!(found.len(), 3);
    for (report, id) in found.iter().zip(ids) {
        assert_eq!(report.process, id);
        assert_eq!(&*report.text, format!("1\tä\\t\n{id}\n"));
        assert!(report.age.unwrap() < millis(10_000), "{:?}", report.age);
    }
    let of = [ids[1], ProcessId(7)];
    let some = process.reports(Some(&of), soon()).await.unwrap();
    assert_eq!(some.len(), 1);
    assert_eq!(some[0].process, ids[1]);
    let none = process.reports(Some(&[]), soon()).await.unwrap();
    assert!(none.is_empty());
}

#[tokio::test]
async fn old_reports_vanish() {
    let server = Postgres::start();
    let process = Process::of(&server).await;
    for n in 1..=3 {
        tell(&process, ProcessId(n), "report").await;
    }
    server.execute(
        "UPDATE distributed_lock.process SET seen_at = now() - interval '181 s' WHERE id < '0000003'",
    );
    assert_eq!(all(&process).await.len(), 1);
    // A report that another transaction has does not keep this one waiting.
    let mut client = server.client().await;
    let transaction = client.transaction().await.unwrap();
    let lock = "SELECT FROM distributed_lock.process WHERE id = '0000001' FOR UPDATE";
    transaction.batch_execute(lock).await.unwrap();
    tell(&process, ProcessId(3), "report").await;
    let rows = || server.query::<usize>("SELECT count(*) FROM distributed_lock.process");
    assert_eq!(rows(), 2);
    transaction.commit().await.unwrap();
    tell(&process, ProcessId(3), "report").await;
    assert_eq!(rows(), 1);
}

#[tokio::test]
async fn whatever_is_stored_is_read_in_part() {
    let server = Postgres::start();
    let process = Process::of(&server).await;
    tell(&process, ProcessId(1), &"ä ".repeat(20_000)).await;
    server.execute(
        "INSERT INTO distributed_lock.process SELECT id, report, clock_timestamp() FROM (VALUES
            ('0000002', repeat('€', 100000)), ('0000003', ''), ('', 'x'), ('-000001', 'x'), ('00000AB', 'x'),
            ('+0000ab', 'x'), ('00000abc', 'x'), (repeat('a', 500), 'x'), ('ä00001', 'x')) hostile(id, report);
         INSERT INTO distributed_lock.process VALUES ('0000004', 'x', 'infinity'), ('0000005', 'x', '-infinity')",
    );
    let mut found = all(&process).await;
    found.sort_by_key(|report| report.process.0);
    let ids: Vec<u32> = found.iter().map(|report| report.process.0).collect();
    assert_eq!(ids, [1, 2, 3]);
    assert!(found[..2].iter().all(|it| it.text.len() <= 16 * 1024 + 2));
    assert!(found[0].text.starts_with("ä ä ") && found[1].text.starts_with("€€€"));
    assert_eq!(&*found[2].text, "");
}

#[tokio::test]
async fn no_more_than_ten_thousand_are_read() {
    let server = Postgres::start();
    let process = Process::of(&server).await;
    tell(&process, ProcessId(1), "report").await;
    server.execute(
        "INSERT INTO distributed_lock.process
            SELECT lpad(to_hex(n), 7, '0'), 'x', clock_timestamp() FROM generate_series(2, 11000) n",
    );
    assert_eq!(all(&process).await.len(), 10_000);
}
