//! The feature `metrics`: the series of a manager, as Prometheus reads them.

use std::collections::BTreeMap;
use std::time::Duration;

use lock_runtime::testing::{Fault, Locks};
use lock_runtime::{Config, LockError, LockManager, LostCause, Report, distributed_lock};
use lock_test_support::promtool::promtool;
use lock_test_support::server::Server;
use lock_test_support::time::soon;
use metrics_exporter_prometheus::PrometheusHandle;
use std::sync::LazyLock;
use tokio::time::{Instant, sleep};

#[path = "../../examples/orders/metrics.rs"]
#[allow(dead_code, reason = "the services' module, used in part")]
mod exporter;

const SECOND: Duration = Duration::from_secs(1);

const README: &str = include_str!("../../README.md");
const GUIDE: &str = include_str!("../../lock-runtime/src/guide/observability.md");
const EXPORTER: &str = include_str!("../../examples/orders/metrics.rs");

/// One recorder for all tests of the process: each reads the series of its own template. It is that of the
/// guide.
static EXPORTED: LazyLock<PrometheusHandle> = LazyLock::new(|| exporter::install().unwrap());

/// Returns the value of the series with that name and all of these labels.
fn value(name: &str, labels: &[&str]) -> Option<f64> {
    let text = EXPORTED.render();
    let is_meant = |line: &&str| {
        let series = line.split(['{', ' ']).next();
        series == Some(name) && labels.iter().all(|label| line.contains(label))
    };
    let line = text.lines().find(is_meant)?;
    line.rsplit(' ').next()?.parse().ok()
}

#[distributed_lock(key = "paid:<id>", wait = "20ms", manager = locks)]
async fn pay(locks: &LockManager, id: u32, fails: bool) -> Result<(), LockError> {
    match fails {
        true => std::future::pending().await,
        false => Ok(()),
    }
}

#[tokio::test(start_paused = true)]
async fn calls_and_holds_are_counted_by_template_and_never_by_key() {
    LazyLock::force(&EXPORTED);
    let locks = Locks::new();
    for id in 9_700_000..9_700_003 {
        pay(&locks, id, false).await.unwrap();
    }
    let other = locks.hold_elsewhere("paid:9700001").await;
    assert!(pay(&locks, 9_700_001, false).await.unwrap_err().is_busy());
    let template = r#"template="paid:<id>""#;
    let calls = |outcome: &str| {
        let outcome = format!("outcome=\"{outcome}\"");
        value(
            "distributed_lock_acquire_duration_seconds_count",
            &[template, &outcome],
        )
    };
    assert_eq!((calls("acquired"), calls("busy")), (Some(3.0), Some(1.0)));
    assert_eq!(calls("unavailable"), None);
    locks.fail_with(Fault::Down);
    assert!(
        pay(&locks, 9_700_002, false)
            .await
            .unwrap_err()
            .is_unavailable()
    );
    locks.repair();
    assert_eq!(calls("unavailable"), Some(1.0));

    let call = tokio::spawn({
        let locks = locks.clone();
        async move { pay(&locks, 9_700_003, true).await }
    });
    locks.wait_until_held("paid:9700003").await;
    let active = || value("distributed_lock_hold_active", &[template]);
    soon(async {
        while active() != Some(1.0) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    locks.lose("paid:9700003", LostCause::Expired);
    assert!(call.await.unwrap().unwrap_err().is_lost());
    let cause = r#"cause="expired""#;
    assert_eq!(
        value("distributed_lock_losses_total", &[template, cause]),
        Some(1.0)
    );
    assert_eq!(active(), Some(0.0));
    let held = |outcome| {
        value(
            "distributed_lock_hold_duration_seconds_count",
            &[template, outcome],
        )
    };
    assert_eq!(held(r#"outcome="released""#), Some(3.0));
    assert_eq!(held(r#"outcome="lost""#), Some(1.0));
    assert_eq!(
        value("distributed_lock_wait_active", &[template]),
        Some(0.0)
    );
    drop(other);
    assert!(
        !EXPORTED.render().contains("paid:97"),
        "{}",
        EXPORTED.render()
    );
}

/// Returns the ages of the oldest hold and the oldest wait of a template, in seconds.
fn oldest(template: &str) -> [Option<f64>; 2] {
    let label = format!("template=\"{template}\"");
    ["hold", "wait"].map(|kind| {
        let name = format!("distributed_lock_{kind}_oldest_seconds");
        value(&name, &[&label])
    })
}

/// Lets the locks be used by turns for as long as that.
async fn use_others(locks: &LockManager, time: Duration) {
    let end = Instant::now() + time;
    let mut others = (0..20).cycle();
    while Instant::now() < end {
        let other = locks.lock(format!("busy:{}", others.next().unwrap()));
        other
            .template("busy:<id>")
            .run(async |_| sleep(5 * SECOND).await)
            .await
            .unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn one_stuck_key_of_a_busy_template_is_seen() {
    LazyLock::force(&EXPORTED);
    let locks = Locks::with(Config::new("memory://").report(Report::Off));
    let stuck = || locks.lock("busy:stuck").template("busy:<id>");
    let guard = stuck().acquire().await.unwrap();
    use_others(&locks, 100 * SECOND).await;
    let wait = stuck().wait(Duration::MAX);
    let waits = tokio::spawn(async move { wait.acquire().await.unwrap() });
    use_others(&locks, 3_200 * SECOND).await;
    let [hold, wait] = oldest("busy:<id>").map(Option::unwrap);
    assert!((3_284.0..=3_301.0).contains(&hold), "{hold}");
    assert!((3_184.0..=3_201.0).contains(&wait), "{wait}");

    drop(guard);
    let guard = waits.await.unwrap();
    use_others(&locks, 20 * SECOND).await;
    let [hold, wait] = oldest("busy:<id>").map(Option::unwrap);
    assert!((4.0..=21.0).contains(&hold), "{hold}");
    assert_eq!(wait, 0.0);

    drop(guard);
    sleep(20 * SECOND).await;
    assert_eq!(oldest("busy:<id>"), [Some(0.0); 2]);
    // Nothing has happened for a while.
    sleep(1_000 * SECOND).await;
    let _guard = stuck().acquire().await.unwrap();
    sleep(20 * SECOND).await;
    let [hold, _] = oldest("busy:<id>").map(Option::unwrap);
    assert!((4.0..=21.0).contains(&hold), "{hold}");
}

#[tokio::test(start_paused = true)]
async fn oldest_hold_of_several_managers_counts() {
    LazyLock::force(&EXPORTED);
    let [one, other] = [Locks::new(), Locks::new()];
    let lock = |locks: &Locks| locks.lock("several").template("several");
    let first = lock(&one).acquire().await.unwrap();
    sleep(100 * SECOND).await;
    let second = lock(&other).acquire().await.unwrap();
    sleep(20 * SECOND).await;
    let hold = || oldest("several")[0].unwrap();
    assert!((104.0..=121.0).contains(&hold()), "{}", hold());
    drop(first);
    sleep(20 * SECOND).await;
    assert!((24.0..=41.0).contains(&hold()), "{}", hold());
    drop(second);
    sleep(20 * SECOND).await;
    assert_eq!(hold(), 0.0);
}

#[tokio::test]
async fn renewals_and_servers_are_reported() {
    LazyLock::force(&EXPORTED);
    let mut server = Server::start();
    let port = server.port().to_string();
    let config = Config::new(server.url()).command_timeout(Duration::from_millis(200));
    let locks = LockManager::connect(config).await.unwrap();
    let ttl = Duration::from_secs(6);
    let guard = locks.lock("renewed").ttl(ttl).acquire().await.unwrap();
    let until = async |name: &str, labels: &[&str], expected: fn(f64) -> bool| {
        soon(async {
            while !value(name, labels).is_some_and(expected) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
    };
    let renewals = "distributed_lock_renewals_total";
    until(renewals, &[r#"outcome="renewed""#], |count| count >= 1.0).await;
    until(
        "distributed_lock_renewal_margin_ratio_count",
        &[],
        |count| count >= 1.0,
    )
    .await;
    let margin = value("distributed_lock_renewal_margin_ratio_sum", &[]).unwrap();
    assert!(margin > 0.0);
    server.kill();
    let up = "distributed_lock_server_up";
    until(up, &[&port], |up| up == 0.0).await;
    until(renewals, &[r#"outcome="failed""#], |count| count >= 1.0).await;
    server.restart();
    until(up, &[&port], |up| up == 1.0).await;
    drop(guard);
    locks.shutdown().await;
}

#[test]
fn exporter_of_the_guide_is_that_of_the_services() {
    let (_, exporter) = EXPORTER.split_once("charset=utf-8\";\n\n").unwrap();
    assert!(GUIDE.contains(exporter), "not in the guide:\n{exporter}");
}

/// Returns the series of losses with such a template, and their values.
fn losses(template: &str) -> BTreeMap<String, String> {
    let text = EXPORTED.render();
    let series = text.lines().filter_map(|line| line.rsplit_once(' '));
    let series = series
        .filter(|(name, _)| name.starts_with("distributed_lock_losses") && name.contains(template));
    series
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

#[tokio::test]
async fn alert_of_the_readme_fires_for_a_loss_but_for_no_shutdown_and_no_revoke() {
    LazyLock::force(&EXPORTED);
    let locks = Locks::new();
    let lost = [LostCause::Expired, LostCause::ShutDown, LostCause::Revoked];
    let template = "alarm:<id>";
    let lock = |cause: LostCause| locks.lock(cause.as_str()).template(template);
    let mut guards = Vec::new();
    for cause in lost {
        guards.push(lock(cause).acquire().await.unwrap());
    }
    let before = losses(template);
    for cause in lost {
        locks.lose(cause.as_str(), cause);
    }
    let after = losses(template);

    let (_, alert) = README.split_once("Alert on `").unwrap();
    let (alert, _) = alert.split_once('`').unwrap();
    let mut test = format!(
        "tests:
- interval: 1m
  promql_expr_test:
  - expr: 'count by (template, cause) ({alert})'
    eval_time: 15m
    exp_samples:
    - labels: '{{template=\"{template}\", cause=\"expired\"}}'
      value: 1
  input_series:
"
    );
    for ((series, before), (_, after)) in before.into_iter().zip(after) {
        test += &format!("  - {{ series: '{series}', values: '{before}x10 {after}x10' }}\n");
    }
    promtool(&["test", "rules", "/dev/stdin"], &test);
}
