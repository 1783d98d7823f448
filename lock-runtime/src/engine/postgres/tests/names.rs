use super::{Process, soon};
use crate::limit::Limit;
use lock_test_support::postgres::Postgres;

async fn names(process: &Process, prefix: &str, most: usize) -> Vec<String> {
    let names = process.names(prefix, most, soon()).await.unwrap();
    names.iter().map(|name| name.to_string()).collect()
}

#[tokio::test]
async fn names_that_begin_so_are_listed() {
    let server = Postgres::start();
    let process = Process::of(&server).await;
    let long = format!("lock:long:{}", "ä".repeat(600));
    let mut held = Vec::new();
    for name in ["lock:a", "lock:b", "lock:b\\\0", "lock:bä", "other", &long] {
        held.push(process.acquire(name, Limit::UNLIMITED).await);
    }
    held.push(process.acquire("lock:a", Limit::UNLIMITED).await);
    held.push(process.wait("lock:b").await);
    server.execute(
        "INSERT INTO distributed_lock.held SELECT 'lock:ended', 'x', 1, 1, now() - interval '1 s';
         INSERT INTO distributed_lock.waiting (name, token, max_holders, ttl, asked_at, alive_until)
             SELECT name, 'x', 1, 1, now(), until FROM (VALUES
                 ('lock:dead', now() - interval '1 s'), ('lock:queue', now() + interval '1 h')) n(name, until)",
    );
    let all = names(&process, "lock:", 9).await;
    assert_eq!(all[..4], ["lock:a", "lock:b", "lock:b\\\0", "lock:bä"]);
    assert!(all[4].starts_with("lock:long:ä"), "{}", all[4]);
    assert_eq!(all[5..], ["lock:queue"]);
    let view = process.view(&all[4], 1, soon()).await.unwrap();
    assert_eq!(view.holders.len(), 1, "it names the same lock");
    assert_eq!(names(&process, "lock:b", 2).await, ["lock:b", "lock:b\\\0"]);
    assert_eq!(names(&process, "lock:b\\", 2).await, ["lock:b\\\0"]);
    assert_eq!(names(&process, "", 99).await.len(), 7);
    for none in ["lock:c", "lock:%", "z", "lock:a\u{1}"] {
        assert!(names(&process, none, 9).await.is_empty(), "{none}");
    }
    server.execute("TRUNCATE distributed_lock.held, distributed_lock.waiting");
}

#[tokio::test]
async fn lock_with_many_holders_is_listed_once() {
    let server = Postgres::start();
    let process = Process::of(&server).await;
    process.names("", 1, soon()).await.unwrap();
    server.execute(
        "INSERT INTO distributed_lock.held SELECT 'lock:' || n % 1000, n, 2047, n, now() + interval '1 h'
             FROM generate_series(1, 5000) n",
    );
    assert_eq!(names(&process, "lock:5", 9).await.len(), 9);
    assert_eq!(names(&process, "lock:", 2000).await.len(), 1000);
    server.execute("TRUNCATE distributed_lock.held");
}
