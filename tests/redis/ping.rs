//! Pings of a server that replies, and would refuse locks.

use lock_runtime::Config;

use super::fixture::Fixture;
use lock_test_support::manager::{connected, until_pinged};
use lock_test_support::replica::{master, replica_of};
use lock_test_support::server::{Server, temporary};
use lock_test_support::time::{eventually, millis};

#[tokio::test]
async fn ping_is_one_command_and_leaves_nothing() {
    let fixture = Fixture::start().await;
    fixture.locks().ping().await.unwrap();
    let monitor = fixture.monitor();
    fixture.locks().ping().await.unwrap();
    let commands = monitor.commands(&fixture);
    assert_eq!(commands, [r#""SET" "lock:::never" "" "XX""#]);
    assert_eq!(fixture.query::<usize>("DBSIZE"), 0);
}

/// Asserts that pings fail with that error once a command has spoiled the server, and succeed once another
/// has repaired it.
async fn is_refused(server: &Server, error: &str, spoil: &[&str], repair: &[&str]) {
    let config = Config::new(server.url()).command_timeout(millis(2000));
    let locks = connected(config).await;
    locks.ping().await.unwrap();
    // A connection of its own would begin with a ping, too.
    let client = redis::Client::open(server.url()).unwrap();
    let mut connection = client.get_connection().unwrap();
    let mut send = |words: &[&str]| {
        let (command, arguments) = words.split_first().unwrap();
        redis::cmd(command).arg(arguments).exec(&mut connection)
    };
    send(spoil).unwrap();
    let failed = locks.ping().await.unwrap_err();
    assert!(failed.is_unavailable(), "{failed}");
    assert!(format!("{failed:?}").contains(error), "{failed:?}");
    assert!(locks.lock("row").try_acquire().await.is_err());
    send(repair).unwrap();
    until_pinged(&locks).await;
}

#[tokio::test]
async fn ping_of_a_replica_fails() {
    let (spoil, repair) = (["REPLICAOF", "127.0.0.1", "1"], ["REPLICAOF", "NO", "ONE"]);
    is_refused(&Server::start(), "read only", &spoil, &repair).await;
}

#[tokio::test]
async fn ping_of_a_full_server_fails() {
    let to = |most| ["CONFIG", "SET", "maxmemory", most];
    is_refused(&Server::start(), "OOM", &to("1"), &to("0")).await;
}

#[tokio::test]
async fn ping_of_a_master_with_too_few_replicas_fails() {
    let to = |least| ["CONFIG", "SET", "min-replicas-to-write", least];
    let master = master();
    let _replica = replica_of(&master);
    master.query::<()>(&to("1").join(" "));
    until_pinged(&connected(master.url()).await).await;
    is_refused(&master, "NOREPLICAS", &to("2"), &to("1")).await;
}

#[tokio::test]
async fn ping_of_a_server_that_cannot_write_to_its_disk_fails() {
    let directory = temporary("lost");
    let path = directory.path().to_str().unwrap().to_owned();
    let server = Server::with(None, |_, _| {
        let options = ["--save", "3600 1", "--dir", &path];
        options.map(str::to_owned).into()
    });
    let to = |stops| ["CONFIG", "SET", "stop-writes-on-bgsave-error", stops];
    server.query::<()>(&to("no").join(" "));
    drop(directory);
    server.query::<()>("BGSAVE");
    eventually("saving fails", || {
        let status = server.info("INFO persistence", "rdb_last_bgsave_status");
        status.as_deref() == Some("err")
    });
    is_refused(&server, "MISCONF", &to("yes"), &to("no")).await;
}
