//! The manager that a service configures once at startup.

use std::sync::Once;

use lock_runtime::{LockError, distributed_lock};

/// In two tests in a row, each with a runtime of its own.
async fn shared() {
    static BEFORE: Once = Once::new();
    BEFORE.call_once(|| {
        let error = lock_runtime::manager().unwrap_err();
        assert!(matches!(error, LockError::NotInitialized), "{error}");
        assert!(
            error.to_string().contains("init"),
            "{error} says what to do"
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
async fn one_test_uses_it() {
    shared().await;
    assert_eq!(call(1).await.unwrap(), 1);
}

#[tokio::test]
async fn another_test_uses_it_on_its_own_runtime() {
    shared().await;
    assert_eq!(call(1).await.unwrap(), 1);
    let again = lock_runtime::init("memory://").await.unwrap_err();
    assert!(matches!(again, LockError::AlreadyInitialized), "{again}");
}
