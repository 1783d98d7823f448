//! The inputs that `tests/parsers` has found, each for the parser that has read it.

use crate::fuzzing;
use std::fs;
use std::panic::catch_unwind;
use std::path::Path;

/// Calls the parser with each input in the folder.
fn read_all(folder: &str, parse: fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/parsers/corpus");
    let files = fs::read_dir(corpus.join(folder)).unwrap();
    let inputs = files.map(|file| file.unwrap().path());
    let inputs: Vec<_> = inputs.collect();
    assert!(!inputs.is_empty());
    for input in inputs {
        let bytes = fs::read(&input).unwrap();
        let read = catch_unwind(|| parse(&bytes));
        assert!(read.is_ok(), "{}", input.display());
    }
}

#[cfg(feature = "redis")]
#[test]
fn replies_of_redis_are_read() {
    read_all("redis", fuzzing::redis);
}

#[cfg(feature = "postgres")]
#[test]
fn messages_on_postgres_are_read() {
    read_all("postgres", fuzzing::postgres);
}

#[cfg(feature = "mysql")]
#[test]
fn messages_of_mysql_are_read() {
    read_all("mysql", fuzzing::mysql);
}

#[cfg(feature = "store")]
#[test]
fn records_are_read() {
    read_all("records", fuzzing::records);
}

#[cfg(feature = "etcd")]
#[test]
fn messages_of_etcd_are_read() {
    read_all("etcd", fuzzing::etcd);
}

#[cfg(feature = "zookeeper")]
#[test]
fn messages_of_zookeeper_are_read() {
    read_all("zookeeper", fuzzing::zookeeper);
}

#[test]
fn urls_are_read() {
    read_all("urls", fuzzing::urls);
}
