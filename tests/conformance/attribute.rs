//! The attribute's options on a named manager.

use std::future::pending;
use std::time::Duration;

use lock_runtime::{LockError, LockManager, distributed_lock};

use super::fixture::Fixture;
use lock_test_support::time::{millis, soon};
use tokio::time::Instant;

#[derive(Debug, PartialEq)]
enum Failure {
    OutOfStock,
    Lock(String),
}

impl From<LockError> for Failure {
    fn from(error: LockError) -> Self {
        Self::Lock(error.to_string())
    }
}

#[derive(Clone, Copy)]
enum Way {
    End,
    Return,
    Question,
}

#[distributed_lock(key = "<key>", manager = locks)]
async fn ship(locks: &LockManager, key: &str, way: Way) -> Result<u32, Failure> {
    tokio::task::yield_now().await;
    match way {
        Way::End => {}
        Way::Return => return Ok(2),
        Way::Question => Err(Failure::OutOfStock)?,
    }
    Ok(1)
}

pub async fn attribute_releases_lock_on_every_result(fixture: Fixture) {
    let order = fixture.key("order");
    let ends = [
        (Way::End, Ok(1)),
        (Way::Return, Ok(2)),
        (Way::Question, Err(Failure::OutOfStock)),
    ];
    for (way, end) in ends {
        assert_eq!(ship(fixture.locks(), &order, way).await, end);
        assert!(
            !fixture.is_held(&order).await,
            "released before the call ends"
        );
    }
}

#[distributed_lock(key = "<key>", manager = locks, wait = "0s", on_busy = Ok("busy"))]
async fn at_once(locks: &LockManager, key: &str) -> Result<&'static str, LockError> {
    Ok("in")
}

#[distributed_lock(key = "<key>", manager = locks, wait = "0s", or_else = |error| error.to_string())]
async fn in_words(locks: &LockManager, key: &str) -> String {
    "in".to_owned()
}

pub async fn attribute_with_zero_wait_tries_once(fixture: Fixture) {
    let door = fixture.key("door");
    let holder = fixture.other().lock(&*door).acquire().await.unwrap();
    let start = Instant::now();
    for locks in fixture.both() {
        assert_eq!(at_once(&locks, &door).await.unwrap(), "busy");
    }
    fixture.at_most(Duration::ZERO, start);
    holder.release().await.unwrap();
    assert_eq!(at_once(fixture.locks(), &door).await.unwrap(), "in");
}

pub async fn attribute_error_names_key_and_cause(fixture: Fixture) {
    let door = fixture.key("door");
    let holder = fixture.other().lock(&*door).acquire().await.unwrap();
    let words = in_words(fixture.locks(), &door).await;
    assert!(
        words.contains(&door) && words.contains("held by"),
        "{words}"
    );
    let error = ship_soon(fixture.locks(), &door).await.unwrap_err();
    assert!(
        matches!(&error, Failure::Lock(words) if words.contains(&door)),
        "{error:?}"
    );
    holder.release().await.unwrap();
    // A caller that gave up may have been granted the lock meanwhile, and releases it.
    let enters = async {
        while in_words(fixture.locks(), &door).await != "in" {
            tokio::time::sleep(millis(5)).await;
        }
    };
    soon(enters).await;
}

#[distributed_lock(key = "<key>", manager = locks, wait = Duration::from_millis(50))]
async fn ship_soon(locks: &LockManager, key: &str) -> Result<(), Failure> {
    Ok(())
}

pub async fn attribute_cancels_body_after_max_hold(fixture: Fixture) {
    #[distributed_lock(key = "<key>", manager = locks, max_hold = "400ms")]
    async fn hangs(locks: &LockManager, key: &str) -> Result<(), LockError> {
        pending().await
    }
    let row = fixture.key("row");
    let start = Instant::now();
    let error = soon(hangs(fixture.locks(), &row)).await;
    fixture.at_most(millis(400), start);
    assert!(error.unwrap_err().to_string().contains("max_hold"));
    fixture.until_free(&row).await;
}

struct Service {
    locks: LockManager,
    fixture: Fixture,
}

impl Service {
    #[distributed_lock(key = "<self.fixture.key(name)>", manager = self.locks, guard = lock)]
    async fn token(&self, name: &str) -> Result<u64, LockError> {
        assert!(self.fixture.is_held(&self.fixture.key(name)).await);
        lock.fencing_token().await
    }
}

pub async fn attribute_works_on_methods(fixture: Fixture) {
    let locks = fixture.locks().clone();
    let service = Service { locks, fixture };
    let first = service.token("row").await.unwrap();
    let (a, b) = tokio::join!(service.token("row"), service.token("row"));
    assert!(a.unwrap() > first && b.unwrap() > first);
    service
        .fixture
        .until_free(&service.fixture.key("row"))
        .await;
}

/// The call may return before the lock is free.
pub async fn attribute_releases_in_background(fixture: Fixture) {
    #[distributed_lock(key = "<key>", manager = locks, release = "background")]
    async fn call(locks: &LockManager, key: &str) -> Result<(), LockError> {
        Ok(())
    }
    let row = fixture.key("row");
    for locks in fixture.both() {
        soon(call(&locks, &row)).await.unwrap();
        fixture.until_free(&row).await;
    }
}

/// Whether the process keeps the lock for its next call or not.
pub async fn attribute_gives_lazily_released_lock_to_waiters_elsewhere(fixture: Fixture) {
    #[distributed_lock(key = "<key>", manager = locks, release = "lazy")]
    async fn call(locks: &LockManager, key: &str) -> Result<(), LockError> {
        Ok(())
    }
    let row = fixture.key("row");
    for locks in fixture.both() {
        for _ in 0..2 {
            soon(call(&locks, &row)).await.unwrap();
        }
    }
}
