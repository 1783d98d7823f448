//! What all views say of processes that are silent, and of locks that two may hold.

use crate::program::{code, hold, hold_at, output, run, text};
use lock_runtime::Config;
use lock_test_support::manager::connected;
use lock_test_support::server::Server;
use lock_test_support::time::{eventually, patient};
use lock_test_support::zookeeper::ZooKeeper;
use serde_json::Value;

/// The views of a lock, and of its process.
const VIEWS: [&str; 4] = ["show k", "list", "top", "processes"];

fn printed(url: &str, line: &str) -> String {
    // A busy machine replies late.
    let ended = output(url, &format!("{line} --timeout 10s"), &[]);
    assert_eq!(code(&ended), 0, "{line}: {}", text(&ended.stderr));
    text(&ended.stdout)
}

fn object(url: &str, line: &str) -> Value {
    let printed = printed(url, &format!("{line} --json"));
    let first = printed.lines().next().unwrap_or("null");
    serde_json::from_str(first).unwrap()
}

/// Asks until the only process has answered.
fn until_answered(server: &Server) {
    eventually("it has answered", || {
        printed(&server.url(), "processes");
        let reports: Vec<String> = server.query("HVALS lock:::reports");
        // The last field of the first line.
        let mut lines = reports.iter().filter_map(|report| report.lines().next());
        lines.any(|line| line.ends_with("\t1000"))
    });
}

#[test]
fn frozen_process_is_silent_in_every_view() {
    let server = Server::start();
    let url = server.url();
    let mut holder = hold(&server, "k --ttl 10m");
    until_answered(&server);
    for line in VIEWS {
        let said = printed(&url, line);
        assert!(!said.contains("silent"), "{line}: {said}");
    }
    holder.pause();
    for line in VIEWS {
        // An answer may have been under way.
        eventually("it is silent", || printed(&url, line).contains("silent"));
        let found = object(&url, line);
        let silent = match line {
            "processes" => &found["silent_ms"],
            _ => &found["holders"][0]["silent_ms"],
        };
        assert!(silent.as_u64().is_some(), "{line}: {found}");
    }
    holder.resume();
    holder.order("end");
    holder.succeeds();
}

/// It neither listens yet, nor has a report or a renewal to make.
#[tokio::test]
async fn young_process_is_not_silent() {
    let server = Server::start();
    let config = Config::new(server.url()).service("orders");
    let locks = connected(patient(config)).await;
    let guard = locks.lock("k").acquire().await.unwrap();
    eventually("it has reported", || {
        object(&server.url(), "processes")["service"] == "orders"
    });
    // As if it had reported 14 s ago.
    let reported: Vec<String> = server.query("ZRANGE lock:::processes 0 0");
    server
        .ask::<()>(&["ZINCRBY", "lock:::processes", "-14000", &reported[0]])
        .unwrap();
    for line in VIEWS {
        let said = printed(&server.url(), line);
        assert!(!said.contains("silent"), "{line}: {said}");
    }
    // It should have reported again.
    server
        .ask::<()>(&["ZINCRBY", "lock:::processes", "-80000", &reported[0]])
        .unwrap();
    for line in VIEWS {
        let said = printed(&server.url(), line);
        assert!(said.contains("silent"), "{line}: {said}");
    }
    guard.release().await.unwrap();
    locks.shutdown().await;
}

/// Another process gets the lock meanwhile, and the first one has not noticed.
#[test]
fn lock_that_two_hold_after_a_server_lost_its_data_is_pointed_out() {
    let server = Server::start();
    let url = server.url();
    let mut first = hold(&server, "k --ttl 10m");
    server.query::<()>("FLUSHALL");
    let mut second = hold(&server, "k --ttl 10m");
    eventually("two hold it", || {
        printed(&url, "show k").contains("TWO MAY RUN AT ONCE")
    });
    for line in ["list", "top"] {
        let ended = output(&url, line, &[]);
        let said = text(&ended.stderr);
        assert!(
            said.contains("TWO MAY RUN AT ONCE: `k` is held by "),
            "{said}"
        );
        let rows = text(&ended.stdout);
        assert_eq!(rows.matches("\nk  ").count(), 2, "{line}: {rows}");
        assert!(rows.contains("lost at the server"), "{rows}");
    }
    let found = object(&url, "show k");
    let holders = [&found["holders"], &found["rivals"]].map(|it| it.as_array().unwrap().len());
    assert_eq!(holders, [1, 1], "{found}");
    for holder in [&mut first, &mut second] {
        holder.order("end");
    }
    second.succeeds();
    first.ends();
}

#[test]
fn holder_that_was_asked_to_stop_is_shown_as_such() {
    let server = Server::start();
    let url = server.url();
    let script = "trap 'echo \"@ terminated\"' TERM; echo '@ runs'; read _; read _";
    let mut stuck = run(&server, "k --ttl 10m --grace 5m", script);
    stuck.expect("runs");
    assert!(!printed(&url, "show k").contains("revoked"));
    let asked = output(&url, "revoke k --yes --all --grace 0s --reason stuck", &[]);
    assert_eq!(code(&asked), 75, "{}", text(&asked.stderr));
    eventually("it is revoked", || {
        printed(&url, "show k").contains("  revoked    asked to give it up")
    });
    assert_eq!(object(&url, "show k")["holders"][0]["revoked"], true);
    stuck.expect("terminated");
    stuck.order("end");
    // Unless the signal has ended the first `read`.
    stuck.try_order("end");
    stuck.ends();
}

#[test]
fn age_of_a_report_is_known_on_zookeeper() {
    let server = ZooKeeper::start();
    let mut holder = hold_at(&server.url(), "k");
    eventually("its age is known", || {
        object(&server.url(), "processes")["age_ms"].is_u64()
    });
    holder.order("end");
    holder.succeeds();
}
