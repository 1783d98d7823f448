//! What an operator's look at the reports of many others costs: anything may be in them, and many outlive
//! their processes.

use std::fmt::Write;

use lock_runtime::{Config, LockInfo};

use super::fixture::Fixture;

use lock_test_support::manager::{connected, silent};
use lock_test_support::server::Server;
use lock_test_support::time::millis;

/// The commands by which an operator looks.
const LOOKS: [&str; 3] = ["evalsha", "eval", "scan"];

/// Stores reports of that many processes, each of which claims to hold locks with these keys.
fn store(on: &Server, processes: usize, age_ms: u64, keys: impl Fn(usize) -> Vec<String>) {
    let (seconds, _): (u64, u64) = on.query("TIME");
    let at = (seconds * 1000 - age_ms).to_string();
    let all: Vec<_> = (0..processes).collect();
    for some in all.chunks(500) {
        let (mut reports, mut times) = (vec!["HSET".to_owned()], vec!["ZADD".to_owned()]);
        reports.push("lock:::reports".to_owned());
        times.push("lock:::processes".to_owned());
        for process in some {
            let id = format!("{process:07x}");
            let mut text = "1\torders\t2\tweb\t1\t1\n".to_owned();
            for key in keys(*process) {
                let _ = writeln!(text, "h\tt\t1\t\t\t\t{key}");
            }
            reports.extend([id.clone(), text]);
            times.extend([at.clone(), id]);
        }
        for words in [reports, times] {
            let words: Vec<_> = words.iter().map(|word| &**word).collect();
            on.ask::<()>(&words).unwrap();
        }
    }
}

fn keys(found: &[LockInfo]) -> Vec<&str> {
    found.iter().map(LockInfo::key).collect()
}

/// Lists all locks as an operator does, and returns their keys and the number of requests.
async fn listed(fixture: &Fixture, most: usize) -> (Vec<String>, u64) {
    fixture.query::<()>("CONFIG RESETSTAT");
    let found = fixture.locks().list("").limit(most).await.unwrap();
    let keys = keys(&found).into_iter().map(str::to_owned).collect();
    (keys, fixture.calls(&LOOKS))
}

/// Each of 16 KB, with as many names as have room.
#[tokio::test]
async fn invented_reports_cost_a_bounded_number_of_requests() {
    let fixture = Fixture::start().await;
    let holder = connected(Config::new(fixture.url())).await;
    let guard = holder.lock("held").acquire().await.unwrap();
    while fixture.locks().processes().await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    let names = |process| {
        (0..1100)
            .map(move |n| format!("{process:x}:{n:x}"))
            .collect()
    };
    store(&fixture, 300, 0, names);
    for most in [1, 1000] {
        let (found, requests) = listed(&fixture, most).await;
        assert!(requests < 300, "{requests} requests");
        assert_eq!(found, ["held"]);
    }
    guard.release().await.unwrap();
    holder.shutdown().await;
}

/// Lists say of the processes, too.
#[tokio::test]
async fn locks_and_processes_are_read_at_once() {
    let fixture = Fixture::start().await;
    store(&fixture, 3, 0, |process| vec![format!("order:{process}")]);
    // The first time, the server does not know the scripts.
    listed(&fixture, 1000).await;
    let (_, of_list) = listed(&fixture, 1000).await;
    fixture.query::<()>("CONFIG RESETSTAT");
    let list = fixture.locks().list("");
    let (locks, processes) = list.with_processes().await;
    assert!(locks.unwrap().is_empty());
    assert_eq!(processes.unwrap().len(), 3);
    assert_eq!(fixture.calls(&LOOKS), of_list);
}

/// What their processes held until they were killed is listed no more, and all that is held is.
#[tokio::test]
async fn leftovers_of_killed_processes_cost_a_bounded_number_of_requests() {
    let fixture = Fixture::start().await;
    store(&fixture, 4000, 90_000, |process| {
        (0..64)
            .map(move |n| format!("order:{process}:{n}"))
            .collect()
    });
    let holder = connected(Config::new(fixture.url())).await;
    let mut guards = Vec::new();
    for n in 10..60 {
        let lock = holder.lock(format!("held:{n}"));
        guards.push(lock.acquire().await.unwrap());
    }
    let expected: Vec<_> = guards.iter().map(|guard| guard.key().to_owned()).collect();
    while fixture.locks().list("held:").await.unwrap().len() < guards.len() {
        holder.ask_for_reports().await.unwrap();
    }
    let (found, requests) = listed(&fixture, 1000).await;
    assert!(requests < 300, "{requests} requests");
    assert_eq!(found, expected);
    for guard in guards {
        guard.release().await.unwrap();
    }
    holder.shutdown().await;
}

/// They are 30 MB.
#[tokio::test]
async fn ten_thousand_reports_are_read() {
    let fixture = Fixture::start().await;
    store(&fixture, 10_000, 0, |process| {
        let names = (0..60).map(move |n| format!("order:{process}:{n:030}"));
        names.collect()
    });
    let slow = Config::new(fixture.url()).command_timeout(millis(60_000));
    let locks = connected(silent(slow)).await;
    assert_eq!(locks.processes().await.unwrap().len(), 10_000);
}
