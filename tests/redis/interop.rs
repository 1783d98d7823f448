//! Others that lock by `SET NX PX` and compare-and-delete exclude us, and we exclude them.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::site::Site;
use crate::support::time::{NOISE, millis, within};
use crate::support::worker::Worker;

const LONG: Duration = Duration::from_secs(20);

/// Python's `redis.lock.Lock`, which does what it's ordered to.
fn python(site: &Site) -> Worker {
    let libraries = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python");
    let mut command = Command::new("python3");
    command
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/redis/interop.py"))
        .arg(site.port().to_string())
        .env("PYTHONPATH", &libraries);
    let installed = Command::new("python3")
        .args(["-c", "import redis.lock"])
        .env("PYTHONPATH", &libraries)
        .stderr(Stdio::null())
        .status()
        .expect("`python3` is installed");
    if !installed.success() {
        let install = Command::new("python3")
            .args(["-m", "pip", "install", "--quiet", "--target"])
            .arg(&libraries)
            .arg("redis")
            .status();
        assert!(install.unwrap().success(), "`pip` installs redis-py");
    }
    let worker = Worker::run(command);
    worker.expect("ready", LONG);
    worker
}

/// One after the other, since the first installs what the others use.
#[tokio::test]
async fn redis_py() {
    let site = Site::start().await;
    let mut python = python(&site);

    // We wait for it, and have the lock when it releases.
    python.order("acquire");
    python.expect("acquired", LONG);
    assert!(
        site.locks()
            .lock("row")
            .try_acquire()
            .await
            .unwrap()
            .is_none()
    );
    let waiter = site.locks().lock("row").wait(LONG);
    let waiter = tokio::spawn(async move { waiter.acquire().await });
    tokio::time::sleep(millis(100)).await;
    assert!(!waiter.is_finished());
    python.order("release");
    python.expect("released", LONG);
    let guard = within(NOISE, waiter).await.unwrap().unwrap();

    // It waits for us, and has the lock when we release.
    python.order("try");
    python.expect("busy", LONG);
    python.order("acquire");
    tokio::time::sleep(millis(200)).await;
    assert!(guard.is_valid(), "it didn't break in");
    guard.release().await.unwrap();
    python.expect("acquired", LONG);

    // Its lease ends, we come after it, and its late release leaves us alone.
    site.query::<()>("PEXPIRE lock:row 50");
    let guard = within(millis(50) + NOISE, site.locks().lock("row").acquire())
        .await
        .unwrap();
    python.order("release");
    python.expect("not mine", LONG);
    assert!(site.exists("lock:row"));
    guard.ensure_valid_for(millis(1000)).unwrap();
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_raw_set_nx_px() {
    let site = Site::start().await;
    assert_eq!(
        site.query::<String>("SET lock:row somebody NX PX 60000"),
        "OK"
    );
    assert!(
        site.locks()
            .lock("row")
            .try_acquire()
            .await
            .unwrap()
            .is_none()
    );
    site.query::<()>("DEL lock:row");

    let guard = site.locks().lock("row").acquire().await.unwrap();
    assert_eq!(
        site.query::<Option<String>>("SET lock:row somebody NX PX 60000"),
        None
    );
    assert_eq!(site.query::<String>("TYPE lock:row"), "string");
    guard.release().await.unwrap();
    assert_eq!(
        site.query::<String>("SET lock:row somebody NX PX 60000"),
        "OK"
    );
    site.query::<()>("DEL lock:row");
}
