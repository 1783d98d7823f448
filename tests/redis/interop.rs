//! Clients that lock by `SET NX PX` and compare-and-delete exclude this library, and are excluded by it.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::site::Site;
use crate::support::time::{NOISE, millis, within};
use crate::support::worker::Worker;

const LONG: Duration = Duration::from_secs(20);

/// Starts Python's `redis.lock.Lock`, which follows orders.
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

/// A single test, since its first step installs redis-py.
#[tokio::test]
async fn redis_py_and_library_exclude_each_other() {
    let site = Site::start().await;
    let mut python = python(&site);

    // The library waits for redis-py, and acquires the lock at its release.
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

    // redis-py waits for the library, and acquires the lock at its release.
    python.order("try");
    python.expect("busy", LONG);
    python.order("acquire");
    tokio::time::sleep(millis(200)).await;
    assert!(guard.is_valid(), "redis-py did not take the lock");
    guard.release().await.unwrap();
    python.expect("acquired", LONG);

    // The lease of redis-py ends, the library acquires the lock, and the late release of redis-py does not
    // affect it.
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
async fn raw_set_nx_px_and_library_exclude_each_other() {
    let site = Site::start().await;
    assert_eq!(
        site.query::<String>("SET lock:row other-client NX PX 60000"),
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
        site.query::<Option<String>>("SET lock:row other-client NX PX 60000"),
        None
    );
    assert_eq!(site.query::<String>("TYPE lock:row"), "string");
    guard.release().await.unwrap();
    assert_eq!(
        site.query::<String>("SET lock:row other-client NX PX 60000"),
        "OK"
    );
    site.query::<()>("DEL lock:row");
}
