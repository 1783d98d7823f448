//! The manager that a service configures once at startup.

use std::sync::Once;

use lock_runtime::{LockError, distributed_lock};

/// Initializes the global manager, which two tests share, each on its own runtime.
async fn shared() {
    static BEFORE: Once = Once::new();
    BEFORE.call_once(|| {
        let error = lock_runtime::manager().unwrap_err();
        assert!(matches!(error, LockError::NotInitialized), "{error}");
        assert!(
            error.to_string().contains("init"),
            "{error} names the remedy"
        );
    });
    if let Err(error) = lock_runtime::init("memory://").await {
        assert!(matches!(error, LockError::AlreadyInitialized), "{error}");
    }
}

#[distributed_lock(key = "shared:<id>")]
async fn call(id: u32) -> Result<u32, LockError> {
    let inside = lock_runtime::manager()?
        .lock(format!("shared:{id}"))
        .try_acquire()
        .await?;
    assert!(inside.is_none(), "the lock is held while the body runs");
    Ok(id)
}

#[tokio::test]
async fn global_manager_is_used_by_one_test() {
    shared().await;
    assert_eq!(call(1).await.unwrap(), 1);
}

#[tokio::test]
async fn global_manager_is_used_by_another_test_and_its_runtime() {
    shared().await;
    assert_eq!(call(1).await.unwrap(), 1);
    let again = lock_runtime::init("memory://").await.unwrap_err();
    assert!(matches!(again, LockError::AlreadyInitialized), "{again}");
}
