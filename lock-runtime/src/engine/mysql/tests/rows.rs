use crate::engine::mysql::store::MySqlStore;
use crate::engine::mysql::tests::store;
use crate::own_store::{Store, StoreError, Swapped, Version};
use lock_test_support::mariadb::MariaDb;
use tokio::join;

const OLD: &[u8] = b"0000000000000000 the old record";
const NEW: &[u8] = b"1111111111111111 the new record";

const GATE: &str = "DO GET_LOCK('gate', 20)";

async fn swap(store: &MySqlStore, name: &str, from: Option<&[u8]>) -> Result<Swapped, StoreError> {
    let version = from.map(Version::stamp_of);
    store.swap(name, version.as_ref(), Some(NEW)).await
}

async fn record(store: &MySqlStore, name: &str) -> Vec<u8> {
    store.load(name).await.unwrap().found.unwrap().0
}

/// Statements that wait for one row take the time of all others.
#[tokio::test]
async fn row_that_another_client_has_locked_is_lost_without_a_wait() {
    // On some servers the failure of one write undoes those before it in its transaction.
    for undoes in [false, true] {
        let option = format!("--innodb-rollback-on-timeout={}", u8::from(undoes));
        let mut server = MariaDb::with(&[&option]);
        server.leave_locks();
        let (one, other) = (store(&server), store(&server));
        for name in ["free", "locked"] {
            let inserted = one.swap(name, None, Some(OLD)).await;
            assert!(matches!(inserted, Ok(Swapped::Done(_))), "{inserted:?}");
        }
        other.run("START TRANSACTION".to_owned()).await.unwrap();
        let lock = "SELECT 1 FROM distributed_locks WHERE name = 'locked' FOR UPDATE";
        other.run(lock.to_owned()).await.unwrap();

        // What comes while the connection waits goes together.
        other.run(GATE.to_owned()).await.unwrap();
        one.connection().await.unwrap().run(GATE.to_owned());
        let (free, locked, inserted, _) = join!(
            swap(&one, "free", Some(OLD)),
            swap(&one, "locked", Some(OLD)),
            swap(&one, "locked", None),
            other.run("DO RELEASE_LOCK('gate')".to_owned()),
        );
        for lost in [locked, inserted] {
            let Ok(Swapped::Conflict(found)) = lost else {
                panic!("{lost:?}");
            };
            assert_eq!(found.found.unwrap().0, OLD);
        }
        assert!(matches!(free, Ok(Swapped::Done(_))), "{free:?}");
        assert_eq!(record(&one, "free").await, NEW);
        let waits = server.query("SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_waits'");
        assert_eq!(waits, "Innodb_row_lock_waits\t0");

        other.run("COMMIT".to_owned()).await.unwrap();
        let swapped = swap(&one, "locked", Some(OLD)).await;
        assert!(matches!(swapped, Ok(Swapped::Done(_))), "{swapped:?}");
        assert_eq!(record(&one, "locked").await, NEW);
    }
}
