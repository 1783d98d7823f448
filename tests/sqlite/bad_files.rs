//! What may be at a path instead of a file for locks is refused with an error that says what to do, and is
//! left as it is.

use std::fs;

use lock_runtime::{Config, LockError, LockManager};
use rusqlite::Connection;

use lock_test_support::manager::refusal;
use lock_test_support::server::temporary;
use lock_test_support::servers::Sqlite;
use lock_test_support::time::patient;

/// Asserts that a file can't be used, because of the configuration, for a reason with these words.
async fn is_refused(path: &str, words: &[&str]) {
    let (error, text) = refusal(format!("sqlite://{path}"), "no secret").await;
    let is_config = matches!(error, LockError::InvalidConfig { .. });
    assert!(is_config, "{error:?}");
    for word in words.iter().chain([&path]) {
        assert!(text.contains(word), "no `{word}` in: {text}");
    }
}

#[tokio::test]
async fn path_without_a_file_is_refused() {
    let folder = temporary("lock-sqlite-");
    let path = |name: &str| folder.path().join(name).display().to_string();
    is_refused(&path("no/such/locks.db"), &["is not there", "create it"]).await;
    let directory = path("directory");
    fs::create_dir(&directory).unwrap();
    is_refused(&directory, &["is a directory", "name a file in it"]).await;
    let file = path("file");
    fs::write(&file, "text").unwrap();
    is_refused(&format!("{file}/locks.db"), &["is not there"]).await;
}

#[tokio::test]
async fn file_of_another_kind_is_refused_and_left_as_it_is() {
    let folder = temporary("lock-sqlite-");
    let path = folder.path().join("notes.txt");
    let text = "no database at all. ".repeat(100);
    fs::write(&path, &text).unwrap();
    is_refused(path.to_str().unwrap(), &["no database of SQLite"]).await;
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

#[tokio::test]
async fn database_of_another_program_is_refused_and_left_as_it_is() {
    let folder = temporary("lock-sqlite-");
    for (name, sql) in [
        ("shop.db", "CREATE TABLE goods (name TEXT)"),
        ("marked.db", "PRAGMA application_id = 7"),
    ] {
        let path = folder.path().join(name);
        Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        let before = fs::read(&path).unwrap();
        is_refused(path.to_str().unwrap(), &["another program"]).await;
        assert_eq!(fs::read(&path).unwrap(), before);
    }
}

#[tokio::test]
async fn file_of_a_later_version_is_refused() {
    let file = Sqlite::start();
    let path = file.path();
    let locks = LockManager::connect(patient(file.url())).await.unwrap();
    locks.shutdown().await;
    file.client()
        .execute_batch("PRAGMA user_version = 2")
        .unwrap();
    is_refused(path.to_str().unwrap(), &["later version", "update"]).await;
    file.client()
        .execute_batch("PRAGMA user_version = 1")
        .unwrap();
}

#[tokio::test]
async fn damaged_file_is_refused() {
    let file = Sqlite::start();
    let path = file.path();
    let locks = LockManager::connect(patient(file.url())).await.unwrap();
    locks.shutdown().await;
    drop(locks);
    // Whoever closes it last copies the log to it.
    file.client()
        .execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")
        .unwrap();
    let mut bytes = fs::read(&path).unwrap();
    bytes[100..].fill(0xff);
    fs::write(&path, bytes).unwrap();
    is_refused(path.to_str().unwrap(), &["is damaged", "delete it"]).await;
    fs::remove_file(path).unwrap();
}

/// A tool that looks at locks with a wrong URL makes no file.
#[tokio::test]
async fn file_is_made_only_if_it_may_be() {
    let folder = temporary("lock-sqlite-");
    let path = folder.path().join("locks.db");
    let url = format!("sqlite://{}", path.display());
    let config = Config::new(url).create_schema(false);
    let (error, text) = refusal(config, "no secret").await;
    assert!(
        matches!(error, LockError::InvalidConfig { .. }),
        "{error:?}"
    );
    assert!(text.contains("no service has used locks in it"), "{text}");
    assert!(!path.exists());
}
