//! Every form of function that the attribute accepts: each compiles, and its body runs under its lock.

mod actix;
mod arguments;
mod axum;
mod functions;
mod futures;
mod limits;
mod methods;
mod options;
mod stacked;

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex};

use lock_runtime::LockManager;
use tokio::sync::OnceCell;

static BODIES: LazyLock<Mutex<HashMap<String, usize>>> = LazyLock::new(Mutex::default);

/// Records that a body ran, and asserts that it holds its lock. Every body calls this.
async fn body(key: &str) {
    assert!(!is_free(key).await, "the body runs without `{key}`");
    *BODIES.lock().unwrap().entry(key.to_owned()).or_default() += 1;
}

/// Awaits `call`; asserts that its body ran once under `key` and that the lock was released.
async fn under<F: IntoFuture>(key: &str, call: F) -> F::Output {
    locks().await;
    let value = call.await;
    assert_eq!(
        BODIES.lock().unwrap().remove(key),
        Some(1),
        "bodies under `{key}`"
    );
    assert!(is_free(key).await, "`{key}` is not released");
    value
}

async fn is_free(key: &str) -> bool {
    match locks().await.lock(key).try_acquire().await.unwrap() {
        Some(guard) => {
            guard.release().await.unwrap();
            true
        }
        None => false,
    }
}

/// The global manager.
async fn locks() -> &'static LockManager {
    static START: OnceCell<()> = OnceCell::const_new();
    START
        .get_or_init(async || lock_runtime::init("memory://").await.unwrap())
        .await;
    lock_runtime::manager().unwrap()
}
