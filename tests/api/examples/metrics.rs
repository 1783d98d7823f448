//! `GET /metrics` of the services, as Prometheus reads it.

use std::array;
use std::collections::BTreeSet;
use std::thread;

use super::site::Site;
use lock_test_support::promtool::promtool;
use lock_test_support::server::Server;
use lock_test_support::time::eventually;

const GUIDE: &str = include_str!("../../../lock-runtime/src/guide/observability.md");

/// What the calls of `metrics_are_scraped` leave, without the times, each after `distributed_lock_`.
const SERIES: &str = r#"
acquire_duration_seconds_count{template="orders:setup",outcome="acquired"} 1
acquire_duration_seconds_count{template="order:<id>",outcome="acquired"} 3
acquire_duration_seconds_count{template="order:<id>",outcome="busy"} 1
acquire_duration_seconds_bucket{template="order:<id>",outcome="busy",le="2.5"} 0
acquire_duration_seconds_count{template="order:<id>",outcome="unavailable"} 1
hold_duration_seconds_count{template="orders:setup",outcome="released"} 1
hold_duration_seconds_count{template="orders:setup",outcome="lost"} 0
hold_duration_seconds_count{template="order:<id>",outcome="released"} 2
hold_duration_seconds_count{template="order:<id>",outcome="lost"} 1
hold_active{template="order:<id>"} 0
wait_active{template="order:<id>"} 0
losses_total{template="order:<id>",cause="not_owner"} 1
handoffs_total 1
renewals_total{outcome="renewed"} 1
renewals_total{outcome="failed"} 0
renewal_margin_ratio_bucket{le="0.3"} 0
renewal_margin_ratio_bucket{le="0.7"} 1
renewal_margin_ratio_count 1
"#;

fn has(text: &str, sample: &str) -> bool {
    let line = format!("distributed_lock_{sample}");
    text.lines().any(|it| it == line)
}

/// Returns the names and kinds in the guide's table, as Prometheus writes them.
fn documented() -> BTreeSet<(String, &'static str)> {
    let rows = GUIDE.lines().filter_map(|line| {
        let (name, rest) = line.strip_prefix("| `")?.split_once("` | ")?;
        let kind = rest.split([',', ' ']).next()?;
        name.starts_with("distributed_lock.")
            .then(|| (name.replace('.', "_"), kind))
    });
    rows.collect()
}

/// Returns the names, without the suffixes that Prometheus wants, and the kinds.
fn scraped(text: &str) -> BTreeSet<(String, &str)> {
    let types = text.lines().filter_map(|line| {
        let (name, kind) = line.strip_prefix("# TYPE ")?.split_once(' ')?;
        let suffixes = ["_seconds", "_ratio", "_total"];
        let short = suffixes.iter().find_map(|it| name.strip_suffix(it));
        Some((short.unwrap_or(name).to_owned(), kind))
    });
    types.collect()
}

#[track_caller]
fn metrics_are_scraped(program: &'static str) {
    let mut server = Server::start();
    let site = Site::start(&[program], &server.url());
    let scrape = || {
        let mut answer = site.get(0, "metrics");
        assert_eq!(answer.status(), 200);
        let kind = answer.headers()["content-type"].to_str().unwrap();
        assert!(kind.starts_with("text/plain; version=0.0.4"), "{kind}");
        answer.body_mut().read_to_string().unwrap()
    };
    let until = |sample: &str| eventually(sample, || has(&scrape(), sample));
    let orders: [i64; 4] = array::from_fn(|_| site.create(0).id);
    let [shipped, busy, lost, unavailable] = orders;

    // While the database is locked, a holder is slow: its lease is renewed, and another caller waits for it.
    let database = site.instances.stop_writes();
    server.query::<()>(&format!("SET lock:order:{busy} other-client"));
    thread::scope(|scope| {
        let site = &site;
        let ship = |id| scope.spawn(move || site.ship(0, id).status().as_u16());
        let first = ship(shipped);
        until(r#"hold_active{template="order:<id>"} 1"#);
        until(r#"renewals_total{outcome="renewed"} 1"#);
        let (second, third) = (ship(shipped), ship(busy));
        // The holder knows then that no other process waits, and hands the lock over.
        server.until_waiting(&format!("order:{shipped}"), 1);
        until(r#"wait_active{template="order:<id>"} 2"#);
        database.unlock().unwrap();
        let statuses = [first, second, third].map(|call| call.join().unwrap());
        assert_eq!(statuses, [200, 409, 423]);
    });
    thread::scope(|scope| {
        scope.spawn(|| site.ship(0, lost));
        let delete = format!("DEL lock:order:{lost}");
        eventually(&delete, || server.query(&delete));
    });
    server.kill();
    assert_eq!(site.ship(0, unavailable).status(), 503);
    let up = format!(
        r#"server_up{{server="redis://127.0.0.1:{}"}}"#,
        server.port()
    );
    until(&format!("{up} 0"));
    server.restart();
    until(&format!("{up} 1"));

    let text = scrape();
    for sample in SERIES.trim().lines() {
        assert!(has(&text, sample), "no `{sample}` in:\n{text}");
    }
    assert_eq!(scraped(&text), documented());
    for id in orders {
        assert!(!text.contains(&format!("order:{id}")), "{text}");
    }
    assert_eq!(promtool(&["check", "metrics"], &text), "");
    site.instances.stop();

    // The guide asks for these.
    let words = GUIDE.split(|c: char| c != '_' && !c.is_ascii_lowercase());
    for name in words.filter(|word| word.starts_with("distributed_lock_")) {
        let is_there = text
            .lines()
            .any(|line| line.split(['{', ' ']).next() == Some(name));
        assert!(is_there, "no `{name}` in:\n{text}");
    }
}

#[test]
fn metrics_of_axum_are_what_prometheus_scrapes() {
    metrics_are_scraped("axum_orders");
}

#[test]
fn metrics_of_actix_are_what_prometheus_scrapes() {
    metrics_are_scraped("actix_orders");
}
