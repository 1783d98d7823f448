//! The effect of each option on a call.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use lock_runtime::{FromLockError, LockError, LockManager, distributed_lock};

use super::{body, is_free, locks, under};

const PREFIX: &str = "constant";
const TTL: Duration = Duration::from_secs(30);

fn order_key(id: u64) -> String {
    format!("computed:{id}")
}

#[distributed_lock(key = order_key(id))]
async fn computed(id: u64) -> Result<(), LockError> {
    body("computed:1").await;
    let _ = id;
    Ok(())
}

#[distributed_lock(key = PREFIX, ttl = TTL, wait = TTL * 2, max_hold = 10 * TTL)]
async fn constant() -> Result<(), LockError> {
    body("constant").await;
    Ok(())
}

#[distributed_lock(key = "<PREFIX>:<<{{<id>}}>")]
async fn brackets(id: u64) -> Result<(), LockError> {
    body("constant:<{1}>").await;
    let _ = id;
    Ok(())
}

#[distributed_lock(key = "once:<EVALUATED.fetch_add(1, Relaxed)>")]
async fn once() -> Result<(), LockError> {
    body("once:0").await;
    Ok(())
}

static EVALUATED: AtomicUsize = AtomicUsize::new(0);

#[distributed_lock(
    key = "everything:{id}",
    ttl = "1m 30s",
    wait = "forever",
    max_hold = "2h",
    renew = true,
    replicas = 1 + u32::from(id > 0),
    on_lost = "continue",
    guard = lock,
    crate = ::lock_runtime
)]
async fn everything(id: u64) -> Result<Duration, LockError> {
    body(lock.key()).await;
    assert_eq!(lock.key(), format!("everything:{id}"));
    Ok(lock.remaining())
}

#[distributed_lock(key = "unrenewed", ttl = "250ms", renew = false, on_lost = "cancel", guard = lock)]
async fn unrenewed() -> Result<(), LockError> {
    body("unrenewed").await;
    lock.lost().await;
    std::future::pending().await
}

#[distributed_lock(key = "bounded", max_hold = "250ms", or_else = |error| error.is_lost())]
async fn bounded() -> bool {
    body("bounded").await;
    std::future::pending().await
}

struct Service {
    locks: LockManager,
}

impl Service {
    #[distributed_lock(key = "other", manager = self.locks, guard = lock)]
    async fn other(&self) -> Result<bool, LockError> {
        Ok(lock.is_valid() && is_free("other").await && self.is_held().await)
    }

    async fn is_held(&self) -> bool {
        self.locks
            .lock("other")
            .try_acquire()
            .await
            .unwrap()
            .is_none()
    }
}

#[distributed_lock(key = "busy:<name>", wait = "0s", on_busy = format!("{name} is busy").len(), or_else = |_| 0)]
async fn busy(name: String) -> usize {
    body("busy:it").await;
    drop(name);
    1
}

#[distributed_lock(key = "quiet", wait = "0s", on_busy = (), or_else = drop)]
async fn quiet() {
    body("quiet").await;
}

#[distributed_lock(key = "fallback:{id}", wait = "10ms", or_else = |error| Err((id, error.is_busy())))]
async fn fallback(id: u64) -> Result<(), (u64, bool)> {
    body("fallback:1").await;
    let _ = id;
    Ok(())
}

#[distributed_lock(key = "mapped", wait = "0s", or_else = mapped_error)]
async fn mapped() -> Result<(), String> {
    body("mapped").await;
    Ok(())
}

fn mapped_error(error: LockError) -> Result<(), String> {
    Err(error.to_string())
}

#[derive(Debug, PartialEq)]
enum Own {
    Done,
    Failed,
}

impl FromLockError for Own {
    fn from_lock_error(_: LockError) -> Self {
        Self::Failed
    }
}

#[distributed_lock(key = "own", wait = "0s")]
async fn own() -> Own {
    body("own").await;
    Own::Done
}

#[distributed_lock(key = "refused", wait = "0s")]
async fn refused() -> Result<(), LockError> {
    body("refused").await;
    Ok(())
}

#[tokio::test]
async fn key_expressions_are_evaluated_once() -> Result<(), LockError> {
    under("computed:1", computed(1)).await?;
    under("constant", constant()).await?;
    under("constant:<{1}>", brackets(1)).await?;
    under("once:0", once()).await?;
    assert_eq!(EVALUATED.load(Relaxed), 1);
    Ok(())
}

#[tokio::test]
async fn durations_are_accepted_as_expressions() -> Result<(), LockError> {
    let remaining = under("everything:1", everything(1)).await?;
    assert!(remaining > Duration::from_secs(60), "{remaining:?}");
    Ok(())
}

#[tokio::test]
async fn lost_lock_ends_body() {
    let lost = under("unrenewed", unrenewed()).await.unwrap_err();
    assert!(lost.is_lost(), "{lost}");
    assert!(under("bounded", bounded()).await, "max_hold has passed");
}

#[tokio::test]
async fn named_manager_is_used() {
    locks().await;
    let locks = LockManager::connect("memory://").await.unwrap();
    let service = Service { locks };
    assert!(service.other().await.unwrap());
    assert!(!service.is_held().await);
}

#[tokio::test]
async fn busy_lock_yields_configured_result() {
    assert_eq!(under("busy:it", busy("it".into())).await, 1);
    under("quiet", quiet()).await;
    under("fallback:1", fallback(1)).await.unwrap();
    under("mapped", mapped()).await.unwrap();
    assert_eq!(under("own", own()).await, Own::Done);

    let mut held = Vec::new();
    for key in ["busy:it", "quiet", "fallback:1", "mapped", "own", "refused"] {
        held.push(locks().await.lock(key).acquire().await.unwrap());
    }
    assert_eq!(busy("it".into()).await, 10);
    quiet().await;
    assert_eq!(fallback(1).await, Err((1, true)));
    assert!(mapped().await.unwrap_err().contains("mapped"));
    assert_eq!(own().await, Own::Failed);
    assert!(refused().await.unwrap_err().is_busy());
}
