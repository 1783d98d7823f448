//! Records that another program has written.

use std::error::Error;
use std::time::Duration;

use lock_runtime::{Config, LeaseInfo, LockError, LockManager, Revocation};

use lock_test_support::servers::Shelf;
use lock_test_support::time::soon;

/// None of them is a record, and the last one is that of a later version but for its end.
const NONSENSE: [&[u8]; 3] = [b"", b"nonsense", b"0123456789abcdef\x01nonsense"];

async fn connected(shelf: &Shelf) -> LockManager {
    LockManager::connect(Config::store(shelf.clone()))
        .await
        .unwrap()
}

#[tokio::test]
async fn lock_whose_record_is_none_is_named_and_repaired_by_force() {
    let shelf = Shelf::default();
    let locks = connected(&shelf).await;
    let guard = locks.lock("row").acquire().await.unwrap();
    let before = guard.fencing_token().await.unwrap();
    guard.release().await.unwrap();
    for nonsense in NONSENSE {
        shelf.overwrite("lock:row", nonsense);
        for call in [locks.lock("row"), locks.lock("row").wait(Duration::ZERO)] {
            let error = soon(call.acquire()).await.unwrap_err();
            assert!(error.is_unavailable(), "{error}");
            assert_eq!(error.key(), Some("row"));
            let source = error.source().unwrap().to_string();
            assert!(source.contains("`locks revoke --force`"), "{source}");
        }
        let found = locks.inspect("row").await.unwrap();
        let [foreign] = found.holders() else {
            panic!("{found:?}");
        };
        assert_eq!(foreign.process(), None);
        assert_eq!(foreign.lease(), Some(LeaseInfo::Never));
        let listed = locks.list("").await.unwrap();
        assert_eq!(listed[0].holders()[0].token(), foreign.token());

        let asked = locks.revoke("row").grace(Duration::ZERO).await.unwrap();
        assert!(matches!(asked, Revocation::NotStopped { .. }), "{asked:?}");
        let taken = locks.revoke("row").holder(foreign).force().await.unwrap();
        let Revocation::Taken { fencing_token, .. } = taken else {
            panic!("{taken:?}");
        };
        assert!(fencing_token > before, "{fencing_token} after {before}");
        let guard = locks.lock("row").acquire().await.unwrap();
        let next = guard.fencing_token().await.unwrap();
        assert!(next > fencing_token, "{next} after {fencing_token}");
        guard.release().await.unwrap();
        // It is meant no more.
        let again = locks.revoke("row").holder(foreign).force().await.unwrap();
        assert_eq!(again, Revocation::NotHeld);
    }
    locks.shutdown().await;
}

#[tokio::test]
async fn holder_whose_record_is_overwritten_has_lost_its_lock() {
    let shelf = Shelf::default();
    let locks = connected(&shelf).await;
    let hold = async || {
        let guard = locks.lock("row").acquire().await.unwrap();
        shelf.overwrite("lock:row", b"nonsense");
        guard
    };
    let free = async || {
        let revoke = locks.revoke("row").all().force();
        assert!(matches!(revoke.await, Ok(Revocation::Taken { .. })));
    };
    let is_lost = |error: LockError| assert!(error.is_lost(), "{error}");
    is_lost(hold().await.release().await.unwrap_err());
    free().await;
    let guard = hold().await;
    is_lost(guard.fencing_token().await.unwrap_err());
    assert!(!guard.is_valid());
    drop(guard);
    free().await;
    let lock = locks.lock("row").ttl(Duration::from_secs(3));
    let guard = lock.acquire().await.unwrap();
    shelf.overwrite("lock:row", b"nonsense");
    soon(guard.lost()).await;
    drop(guard);
    free().await;
    locks.shutdown().await;
}

/// Its holders may be there, and go on.
#[tokio::test]
async fn record_of_a_later_version_is_not_taken() {
    let shelf = Shelf::default();
    let locks = connected(&shelf).await;
    shelf.overwrite("lock:row", b"0123456789abcdef\x02nonsense");
    let error = locks.lock("row").acquire().await.unwrap_err();
    let source = error.source().unwrap().to_string();
    assert!(source.contains("later version"), "{source}");
    let revoke = locks.revoke("row").all().force();
    assert!(revoke.await.is_err());
    locks.shutdown().await;
}
