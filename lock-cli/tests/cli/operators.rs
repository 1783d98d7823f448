//! `locks list`, `top`, `processes` and `revoke`.

use crate::program::{code, hold, hold_at, locks, output, run, run_at, text};
use lock_runtime::{Config, ReleaseMode, Report};
use lock_test_support::etcd::Etcd;
use lock_test_support::manager::connected;
use lock_test_support::permissions;
use lock_test_support::postgres::Postgres;
use lock_test_support::server::Server;
use lock_test_support::time::{eventually, patient, soon};
use lock_test_support::worker::Worker;
use lock_test_support::zookeeper::ZooKeeper;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;
use std::time::Duration;

fn printed(server: &Server, line: &str, more: &[&str]) -> String {
    // A busy machine replies late.
    let line = format!("{line} --timeout 10s");
    let ended = output(&server.url(), &line, more);
    assert_eq!(code(&ended), 0, "{}", text(&ended.stderr));
    text(&ended.stdout)
}

fn objects(server: &Server, line: &str) -> Vec<Value> {
    let text = printed(server, line, &["--json"]);
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Looks until so many locks are found: a process reports soon after its first lock.
fn until_listed(server: &Server, line: &str, count: usize) -> Vec<Value> {
    let mut found = Vec::new();
    eventually("they are listed", || {
        found = objects(server, line);
        found.len() == count
    });
    found
}

#[test]
fn locks_and_processes_are_listed() {
    let server = Server::start();
    assert_eq!(printed(&server, "list", &[]), "no locks\n");
    assert_eq!(
        printed(&server, "processes", &[]),
        "no process has reported\n"
    );
    let mut one = hold(&server, "order:1");
    let mut two = hold(&server, "stock:1 --read");
    let mut waiter = run(&server, "stock:1 --wait 1m", "echo '@ runs'");
    server.until_waiting("stock:1", 1);

    let found = until_listed(&server, "list", 2);
    let keys: Vec<_> = found
        .iter()
        .map(|lock| lock["key"].as_str().unwrap())
        .collect();
    assert_eq!(keys, ["order:1", "stock:1"]);
    let holder = &found[0]["holders"][0];
    assert_eq!(
        (&holder["label"], &holder["mode"]),
        (&"sh".into(), &"exclusive".into())
    );
    assert_eq!(holder["reported"]["service"], "locks");
    assert_eq!(holder["reported"]["version"], Value::Null);
    assert_eq!(objects(&server, "list order:").len(), 1);
    assert_eq!(objects(&server, "list --waiting")[0]["key"], "stock:1");
    assert!(objects(&server, "list --longer-than 1h").is_empty());
    let top = printed(&server, "top", &[]);
    assert!(
        top.starts_with("2 locks held, 1 process waiting\n\nKEY "),
        "{top}"
    );
    let list = printed(&server, "list", &[]);
    let lines: Vec<_> = list.lines().collect();
    assert_eq!(lines.len(), 3, "{list}");
    let pid = holder["reported"]["pid"].to_string();
    assert!(
        lines[1].starts_with("order:1  ") && lines[1].contains(&format!("pid {pid}")),
        "{list}"
    );

    // A key that no process has reported is found by reading all keys.
    server
        .ask::<()>(&["SET", "lock:legacy", "worker-7", "PX", "60000"])
        .unwrap();
    assert_eq!(until_listed(&server, "list", 2).len(), 2);
    let found = objects(&server, "list --scan");
    let legacy = found.iter().find(|lock| lock["key"] == "legacy").unwrap();
    assert_eq!(legacy["holders"][0]["process"], Value::Null);

    server.ask::<()>(&["DEL", "lock:legacy"]).unwrap();
    let processes = objects(&server, "processes");
    assert_eq!(processes.len(), 3, "{processes:?}");
    assert!(processes.iter().any(|it| it["waiting"] == 1));
    let table = printed(&server, "processes", &[]);
    assert!(
        table.starts_with("PROCESS  SERVICE  VERSION  HOST"),
        "{table}"
    );
    for worker in [&mut one, &mut two] {
        worker.order("end");
        worker.succeeds();
    }
    waiter.expect("runs");
    waiter.succeeds();
}

/// Returns how many processes are listed.
fn processes(url: &str) -> usize {
    let ended = output(url, "processes --json --timeout 10s", &[]);
    assert_eq!(code(&ended), 0, "{url}: {}", text(&ended.stderr));
    text(&ended.stdout).lines().count()
}

#[test]
fn command_that_has_ended_is_no_process() {
    let redis = Server::start();
    let (postgres, etcd, zookeeper) = (Postgres::start(), Etcd::start(), ZooKeeper::start());
    for url in [redis.url(), postgres.url(), etcd.url(), zookeeper.url()] {
        let mut holder = hold_at(&url, "k");
        let mut waiter = run_at(&url, "k --wait 1m", "true");
        eventually("both are listed", || processes(&url) == 2);
        waiter.signal("TERM");
        assert_eq!(waiter.ends().code(), Some(143));
        assert_eq!(processes(&url), 1, "{url}");
        holder.order("end");
        holder.succeeds();
        assert_eq!(processes(&url), 0, "{url}");
    }
}

fn revoke(server: &Server, more: &[&str]) -> (i32, String, String) {
    let ended = output(&server.url(), "revoke --reason stuck", more);
    (code(&ended), text(&ended.stdout), text(&ended.stderr))
}

#[test]
fn revoked_command_stops_and_the_next_one_runs() {
    let server = Server::start();
    let script =
        "trap 'echo \"@ terminated\"; exit 5' TERM; echo '@ runs'; while :; do sleep 0.05; done";
    let mut stuck = run(&server, "order:42 --grace 10s", script);
    stuck.expect("runs");
    let mut next = run(&server, "order:42 --wait 1m", "echo '@ enters'");
    server.until_waiting("order:42", 1);

    let (status, _, errors) = revoke(&server, &["order:42"]);
    assert_eq!(status, 2, "{errors}");
    assert!(errors.contains("--yes"), "{errors}");
    let (status, said, _) = revoke(
        &server,
        &["order:42", "--yes", "--all", "--grace", "1m", "--by", "ann"],
    );
    assert_eq!(status, 0, "{said}");
    assert!(
        said.starts_with("order:42: asked locks ") && said.contains("; stopped after "),
        "{said}"
    );
    stuck.expect("terminated");
    assert_eq!(stuck.ends().code(), Some(124));
    next.expect("enters");
    next.succeeds();
    let (status, said, errors) = revoke(&server, &["order:42"]);
    assert_eq!((status, &*said), (0, "order:42: free\n"));
    assert!(
        errors.contains("this is the prefix `lock:` of `redis://"),
        "{errors}"
    );
}

#[test]
fn revoked_command_that_ignores_term_is_killed_before_its_lease_ends() {
    let server = Server::start();
    let script = "trap '' TERM; echo '@ runs'; while :; do sleep 0.05; done";
    let mut stuck = run(&server, "k --ttl 60s --grace 1s", script);
    stuck.expect("runs");
    let (status, said, _) = revoke(&server, &["k", "--yes", "--all", "--grace", "1m", "--json"]);
    assert_eq!(status, 0, "{said}");
    let found: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(found["outcome"], "stopped");
    assert!(found["after_ms"].as_u64().unwrap() >= 500, "{found}");
    assert_eq!(stuck.ends().code(), Some(124));
}

#[test]
fn stopped_holder_loses_its_lock_by_force_alone() {
    let server = Server::start();
    let mut stopped = hold(&server, "k --ttl 60s");
    stopped.pause();
    let (status, said, _) = revoke(&server, &["k", "--yes", "--all", "--grace", "300ms"]);
    assert_eq!(status, 75, "{said}");
    assert!(
        said.contains(", who still has it, and may stop yet; its lease: "),
        "{said}"
    );
    assert!(said.contains("--force"), "{said}");
    let (status, said, _) = revoke(
        &server,
        &["k", "--yes", "--all", "--grace", "0s", "--force", "--json"],
    );
    assert_eq!(status, 0, "{said}");
    let found: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(found["outcome"], "taken");
    let taken = found["fencing_token"].as_u64().unwrap();
    let mut next = run(&server, "k", "echo \"@ token $LOCK_FENCING_TOKEN\"");
    let token: u64 = next.expect("token").trim().parse().unwrap();
    assert!(token > taken, "{token} > {taken}");
    next.succeeds();
    stopped.resume();
    assert_eq!(stopped.ends().code(), Some(124));
}

/// An ask is carried out late, so that the next holder has the lock when it is repeated.
#[test]
fn repeated_ask_means_the_same_holder() {
    let server = Server::start();
    let script = "trap 'echo \"@ terminated\"; read _; exit' TERM; echo '@ runs'; while :; do sleep 0.05; done";
    let mut slow = run(&server, "k --ttl 60s --grace 1m", script);
    slow.expect("runs");
    let mut next = run(&server, "k --wait 1m", "echo '@ enters'; read _");
    server.until_waiting("k", 1);
    let repeated =
        |more: &[&str]| revoke(&server, &[&["k", "--yes", "--grace", "1s"], more].concat());

    let (status, said, _) = repeated(&["--all"]);
    assert_eq!(status, 75, "{said}");
    let (_, advice) = said.split_once("`--token ").unwrap();
    let (token, _) = advice.split_once('`').unwrap();
    slow.expect("terminated");
    slow.order("end");
    assert_eq!(slow.ends().code(), Some(124));
    next.expect("enters");

    let (status, said, errors) = repeated(&["--token", token]);
    assert_eq!((status, &*said), (0, "k: not held with that token\n"));
    assert!(errors.contains(", who is not asked"), "{errors}");
    let (status, _, errors) = repeated(&[]);
    assert_eq!(status, 2, "{errors}");
    assert!(errors.contains("`k` is held by "), "{errors}");
    next.order("end");
    next.succeeds();
}

#[tokio::test]
async fn lock_that_a_transaction_keeps_is_reported_as_such() {
    let server = Postgres::start();
    let url = server.url();
    let command = ["--", "sh", "-c", "echo '@ holds'; read _"];
    let mut holder = Worker::run(locks(&url, "run k", &command));
    holder.expect("holds");
    let transaction = server.client().await;
    let proof = "BEGIN; SELECT FROM distributed_lock.held WHERE name = 'lock:k' FOR KEY SHARE";
    transaction.batch_execute(proof).await.unwrap();
    let forced = |more: &[&str]| {
        let ended = output(
            &url,
            "revoke k --yes --all --grace 0s --force --reason stuck",
            more,
        );
        assert_eq!(code(&ended), 75, "{}", text(&ended.stderr));
        text(&ended.stdout)
    };
    let said = forced(&[]);
    assert!(
        said.contains("free only when the transaction ends"),
        "{said}"
    );
    let found: Value = serde_json::from_str(&forced(&["--json"])).unwrap();
    assert_eq!(found["outcome"], "in transaction");
    assert_eq!(holder.ends().code(), Some(124));
    transaction.batch_execute("COMMIT").await.unwrap();
    let after = output(&url, "run k --wait 1m", &["--", "true"]);
    assert_eq!(code(&after), 0, "{}", text(&after.stderr));
}

/// The user that the runbook makes may look, and the program says what else it may not do.
#[test]
fn user_who_may_only_read_looks() {
    let server = Server::start();
    permissions::paste(permissions::documented_viewer(), &server);
    let url = server.url().replace("://", "://viewer:password@");
    let mut holder = hold(&server, "k");
    for line in ["show k", "list", "top", "processes"] {
        let mut said = String::new();
        eventually(line, || {
            let ended = output(&url, line, &[]);
            assert_eq!(code(&ended), 0, "{line}: {}", text(&ended.stderr));
            said = text(&ended.stdout);
            said.contains("locks at ") || line == "processes" && said.contains("locks  ")
        });
        assert_eq!(said.contains("PROCESS"), line == "processes", "{said}");
    }
    for line in [
        "list --scan",
        "ping",
        "run k -- true",
        "revoke k --yes --all --reason no --grace 0s --force",
    ] {
        let ended = output(&url, line, &[]);
        let said = text(&ended.stderr);
        assert!(said.to_lowercase().contains("permission"), "{line}: {said}");
        assert_eq!(code(&ended), 78, "{line}: {said}");
    }
    holder.order("");
    holder.succeeds();
}

/// Another prefix, or another database, is the first thing to look for.
#[test]
fn place_is_said_where_nothing_is_found() {
    let server = Server::start();
    let url = server.url().replace("://", "://ann:s3cret@");
    server
        .ask::<()>(&[
            "ACL", "SETUSER", "ann", "on", ">s3cret", "~*", "&*", "+@all",
        ])
        .unwrap();
    for line in ["list", "processes", "show k"] {
        let ended = output(&url, &format!("{line} --prefix shop:"), &[]);
        let said = text(&ended.stderr);
        assert_eq!(code(&ended), 0, "{line}: {said}");
        let place = format!(
            "the prefix `shop:` of `redis://127.0.0.1:{}/`",
            server.port()
        );
        assert!(said.contains(&place), "{line}: {said}");
        assert!(!said.contains("s3cret"), "{line}: {said}");
        assert_eq!(said.contains("`--scan`"), line == "list", "{said}");
    }
}

#[test]
fn one_of_several_holders_is_chosen() {
    let server = Server::start();
    let mut readers = [0; 2].map(|_| hold(&server, "k --read"));
    let (status, _, errors) = revoke(&server, &["k", "--yes"]);
    assert_eq!(status, 2, "{errors}");
    let token = errors.split_whitespace().nth(1).unwrap();
    let (status, said, _) = revoke(&server, &["k", "--yes", "--grace", "1m", "--token", token]);
    assert_eq!(status, 0, "{said}");
    let left = objects(&server, "show k");
    assert_eq!(left[0]["holders"].as_array().unwrap().len(), 1, "{left:?}");
    let (status, said, _) = revoke(&server, &["k", "--yes", "--grace", "1m", "--all"]);
    assert_eq!(status, 0, "{said}");
    for reader in &mut readers {
        assert_eq!(reader.ends().code(), Some(124));
    }
}

#[test]
fn lock_of_another_client_is_never_asked_for() {
    let server = Server::start();
    server
        .ask::<()>(&["SET", "lock:k", "worker-7", "PX", "60000"])
        .unwrap();
    let (status, said, errors) = revoke(&server, &["k", "--yes", "--all", "--grace", "1m"]);
    assert_eq!(status, 75, "{said}");
    assert!(!errors.contains("waiting up to"), "{errors}");
    assert!(said.contains("`--token worker-7`"), "{said}");
    assert!(
        said.starts_with("k: another client has it, which cannot be asked"),
        "{said}"
    );
    let (status, said, _) = revoke(&server, &["k", "--yes", "--token", "worker-8", "--force"]);
    assert_eq!((status, &*said), (0, "k: not held with that token\n"));
    assert_eq!(server.query::<String>("GET lock:k"), "worker-7");
    let (status, said, _) = revoke(&server, &["k", "--yes", "--token", "worker-7", "--force"]);
    assert_eq!(status, 0, "{said}");
    assert!(said.starts_with("k: taken from another client; "), "{said}");
    assert_eq!(server.query::<Option<String>>("GET lock:k"), None);
}

#[test]
fn key_that_is_no_lock_is_left_alone() {
    let server = Server::start();
    server
        .ask::<()>(&["HSET", "lock:k", "field", "value"])
        .unwrap();
    let (status, said, _) = revoke(&server, &["k", "--yes", "--all", "--force"]);
    assert_eq!(status, 75, "{said}");
    assert_eq!(server.query::<u64>("HLEN lock:k"), 1);
    server.ask::<()>(&["DEL", "lock:k"]).unwrap();
}

#[test]
fn longest_holds_are_shown_first() {
    let server = Server::start();
    let mut old = hold(&server, "z:old");
    let mut new = hold(&server, "a:new");
    until_listed(&server, "list", 2);
    let top = printed(&server, "top --limit 1", &[]);
    assert!(
        top.starts_with("2 locks held, 0 processes waiting\n\nKEY "),
        "{top}"
    );
    assert!(top.lines().nth(3).unwrap().starts_with("z:old  "), "{top}");
    assert!(top.ends_with("and 1 more\n"), "{top}");
    for worker in [&mut old, &mut new] {
        worker.order("end");
        worker.succeeds();
    }
}

/// A report names 64 locks.
#[tokio::test]
async fn totals_count_what_the_reports_do_not_name() {
    let server = Server::start();
    let config = Config::new(server.url())
        .service("orders")
        .report(Report::Live);
    let locks = connected(patient(config)).await;
    let mut guards = Vec::new();
    for number in 0..100 {
        let lock = locks.lock(format!("order:{number}"));
        guards.push(lock.ttl(Duration::from_secs(300)).acquire().await.unwrap());
    }
    let hint = "do not name 36 more locks; `--scan` finds them";
    eventually("the others are counted", || {
        let ended = output(&server.url(), "list", &[]);
        text(&ended.stderr).contains(hint)
    });
    let top = printed(&server, "top --limit 10", &[]);
    let summary = "100 locks held, 0 processes waiting\n";
    assert!(top.starts_with(summary), "{top}");
    assert!(top.ends_with("and 90 more\n"), "{top}");
    let some = output(&server.url(), "list none:", &[]);
    assert!(text(&some.stderr).contains(hint));

    let all = output(&server.url(), "list --scan", &[]);
    assert_eq!(text(&all.stdout).lines().count(), 101);
    assert!(all.stderr.is_empty(), "{}", text(&all.stderr));
    let top = printed(&server, "top --scan", &[]);
    assert!(top.starts_with(summary), "{top}");
    let cut = output(&server.url(), "list --scan --waiting --limit 50", &[]);
    assert!(text(&cut.stderr).contains("no more than 50 locks"));
    for guard in guards {
        guard.release().await.unwrap();
    }
    locks.shutdown().await;
}

#[tokio::test]
async fn kept_lock_is_shown_as_such() {
    let server = Server::start();
    let config = Config::new(server.url()).service("orders");
    let locks = connected(patient(config)).await;
    let lazy = |key| {
        let lock = locks.lock(key).ttl(Duration::from_secs(300));
        lock.release_mode(ReleaseMode::Lazy)
    };
    // It is kept once the process hears recalls.
    let kept = async {
        while locks.stats().kept == 0 {
            drop(lazy("order:42").acquire().await.unwrap());
        }
    };
    soon(kept).await;
    eventually("it is shown as kept", || {
        objects(&server, "show order:42")[0]["holders"][0]["kept"] == true
    });
    let shown = printed(&server, "show order:42", &[]);
    let lines: Vec<_> = shown.lines().collect();
    assert!(lines[0].starts_with("order:42     kept for "), "{shown}");
    assert!(lines[0].contains(" by orders at "), "{shown}");
    assert!(
        lines[1].starts_with("  unused     no call has it"),
        "{shown}"
    );
    let listed = printed(&server, "list", &[]);
    assert!(listed.contains("  kept "), "{listed}");
    let top = printed(&server, "top", &[]);
    let summary = "0 locks held, 1 kept, 0 processes waiting\n";
    assert!(top.starts_with(summary), "{top}");

    let tried = output(&server.url(), "run order:42 --", &["true"]);
    assert_eq!(code(&tried), 75, "a single try does not recall it");
    let said = text(&tried.stderr);
    assert!(
        said.contains(" is kept for ") && said.contains(" by orders at "),
        "{said}"
    );
    assert_eq!(locks.stats().kept, 1);
    let mut next = run(&server, "order:42 --wait 1m", "echo '@ runs'");
    next.expect("runs");
    next.succeeds();
    assert_eq!((locks.stats().kept, locks.stats().recalled), (0, 1));

    let guard = lazy("order:43").acquire().await.unwrap();
    guard.release().await.unwrap();
    assert_eq!(locks.stats().kept, 1);
    let (status, said, errors) = revoke(&server, &["order:43", "--yes", "--all"]);
    assert_eq!(status, 0, "{errors}");
    assert!(said.contains("; stopped after "), "{said}");
    assert_eq!((locks.stats().kept, locks.stats().lost), (0, 0));
    locks.shutdown().await;
}

/// Also after an outage of the server.
#[test]
fn top_is_shown_again_and_again() {
    let mut server = Server::start();
    let mut holder = hold(&server, "order:42");
    let mut watch = locks(&server.url(), "top --watch --every 100ms --json", &[]);
    let watch = watch.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut watch = watch.spawn().unwrap();
    let objects = |output: Box<dyn Read>| {
        let lines = BufReader::new(output).lines();
        lines.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap())
    };
    let mut found = objects(Box::new(watch.stdout.take().unwrap()));
    let mut errors = objects(Box::new(watch.stderr.take().unwrap()));
    for found in found.by_ref().take(3) {
        assert_eq!(found["key"], "order:42");
    }
    server.kill();
    assert_eq!(errors.next().unwrap()["code"], 69);
    server.restart();
    holder.kill();
    let mut holder = hold(&server, "order:43");
    assert!(found.any(|found| found["key"] == "order:43"));
    watch.kill().unwrap();
    watch.wait().unwrap();
    holder.order("end");
    holder.succeeds();
}
