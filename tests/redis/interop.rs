//! Clients that lock by `SET NX PX` and compare-and-delete exclude this library, and are excluded by it.

use std::path::Path;
use std::process::{Command, Stdio};

use lock_runtime::{Holder, LockError};

use super::fixture::Fixture;
use lock_test_support::time::{PATIENCE, millis, soon};
use lock_test_support::worker::Worker;

/// Starts Python's `redis.lock.Lock`, which follows orders.
fn python(fixture: &Fixture) -> Worker {
    let libraries = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python");
    let mut command = Command::new("python3");
    command
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/redis/interop.py"))
        .arg(fixture.port().to_string())
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
    worker.expect("ready");
    worker
}

/// A single test, since its first step installs redis-py.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_py_and_library_exclude_each_other() {
    let fixture = Fixture::start().await;
    let mut python = python(&fixture);

    // The library waits for redis-py, and acquires the lock at its release.
    python.order("acquire");
    python.expect("acquired");
    assert!(
        fixture
            .locks()
            .lock("row")
            .try_acquire()
            .await
            .unwrap()
            .is_none()
    );
    let waiter = fixture.locks().lock("row").wait(PATIENCE);
    let waiter = tokio::spawn(async move { waiter.acquire().await });
    fixture.until_waiting("row", 1);
    python.order("release");
    python.expect("released");
    let guard = soon(waiter).await.unwrap().unwrap();

    // redis-py waits for the library, and acquires the lock at its release.
    python.order("try");
    python.expect("busy");
    python.order("acquire");
    tokio::time::sleep(millis(200)).await;
    assert!(guard.is_valid(), "redis-py did not take the lock");
    guard.release().await.unwrap();
    python.expect("acquired");

    // The lease of redis-py ends, the library acquires the lock, and the late release of redis-py does not
    // affect it.
    fixture.query::<()>("PEXPIRE lock:row 50");
    let guard = soon(fixture.locks().lock("row").acquire()).await.unwrap();
    python.order("release");
    python.expect("not mine");
    assert!(fixture.exists("lock:row"));
    guard.ensure_valid_for(millis(1000)).unwrap();
    guard.release().await.unwrap();
}

#[tokio::test]
async fn raw_set_nx_px_and_library_exclude_each_other() {
    let fixture = Fixture::start().await;
    assert_eq!(
        fixture.query::<String>("SET lock:row other-client NX PX 60000"),
        "OK"
    );
    assert!(
        fixture
            .locks()
            .lock("row")
            .try_acquire()
            .await
            .unwrap()
            .is_none()
    );
    fixture.query::<()>("DEL lock:row");

    let guard = fixture.locks().lock("row").acquire().await.unwrap();
    assert_eq!(
        fixture.query::<Option<String>>("SET lock:row other-client NX PX 60000"),
        None
    );
    assert_eq!(fixture.query::<String>("TYPE lock:row"), "string");
    guard.release().await.unwrap();
    assert_eq!(
        fixture.query::<String>("SET lock:row other-client NX PX 60000"),
        "OK"
    );
    fixture.query::<()>("DEL lock:row");
}

/// Another program stores a list, or a value without an expiry, at the key.
#[tokio::test]
async fn foreign_key_is_busy_and_said_to_be_none_of_a_lock() {
    let fixture = Fixture::start().await;
    for (command, known, words) in [
        (
            "RPUSH lock:row a b",
            Holder::ForeignValue,
            "not that of a lock",
        ),
        ("SET lock:row x", Holder::NeverExpires, "never expires"),
    ] {
        fixture.query::<()>(command);
        for lock in [
            fixture.locks().lock("row"),
            fixture.locks().lock("row").read(),
        ] {
            let error = lock.wait(millis(1000)).acquire().await.unwrap_err();
            let LockError::Busy { holder, .. } = &error else {
                panic!("{error}");
            };
            assert_eq!(*holder, known, "{error}");
            for words in ["timed out after", words, "delete the key", "`row`"] {
                assert!(error.to_string().contains(words), "{error}");
            }
        }
        fixture.query::<()>("DEL lock:row");
    }
    let foreign = fixture.locks().lock("row").acquire().await.unwrap();
    foreign.release().await.unwrap();
}
