//! What a user must be permitted, and what a server must know, is found out when connecting.

use lock_runtime::{Config, LockError, LockManager};

use crate::support::manager::connected;
use crate::support::refusing::Refusing;
use crate::support::server::Server;
use crate::support::time::{NOISE, eventually, millis, within};

const LONG: std::time::Duration = millis(20_000);

/// As the README and `PROTOCOL.md` have it.
const COMMANDS: &str = "+@connection +set +get +del +pexpire +pttl +time +exists +eval +evalsha \
    +script|load +zadd +zcard +zpopmin +zrange +zrank +zrem +hset +hget +hdel +hexists \
    +publish +subscribe +pubsub|numsub";

fn clerk(server: &Server, rules: &str) -> Config {
    let user = format!("ACL SETUSER clerk reset on >s3cret {rules}");
    server.query::<()>(&user);
    Config::new(server.url()).credentials("clerk", "s3cret")
}

async fn refused(config: Config) -> String {
    let error = within(LONG, LockManager::connect(config))
        .await
        .unwrap_err();
    assert!(matches!(error, LockError::InvalidConfig { .. }), "{error}");
    error.to_string()
}

/// The lock passes from one process to another, which hears of it.
async fn passes_on(server: &Server, config: Config) {
    let locks = connected(config.clone()).await;
    let other = connected(config).await;
    let holder = locks.lock("door").acquire().await.unwrap();
    let next = tokio::spawn(other.lock("door").wait(LONG).acquire());
    server.until_waiting("door", 1);
    holder.release().await.unwrap();
    let guard = within(LONG, next).await.unwrap().unwrap();
    assert!(guard.fencing_token().await.unwrap() > 0);
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_least_rule_is_enough() {
    let server = Server::start();
    let config = clerk(&server, &format!("~lock:* &lock:* {COMMANDS}"));
    passes_on(&server, config).await;
    // Where it can't be told who listens to a channel, `PUBLISH` tells something like it.
    let commands = COMMANDS.replace(" +pubsub|numsub", "");
    let config = clerk(&server, &format!("~lock:* &lock:* {commands}"));
    passes_on(&server, config).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_without_channels_is_told_when_connecting() {
    let server = Server::start();
    let words = refused(clerk(&server, "~lock:* resetchannels +@all")).await;
    assert!(words.contains("publish"), "{words}");
    assert!(words.contains("&lock:*"), "{words}");
    let words = refused(clerk(&server, "~lock:* &other:* +@all")).await;
    assert!(words.contains("&lock:*"), "{words}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_command_that_is_missing_is_named_when_connecting() {
    let server = Server::start();
    let tried = COMMANDS.split_whitespace().filter(|rule| {
        // Locks can do without these.
        !["+script|load", "+pubsub|numsub"].contains(rule)
    });
    // What the scripts call may be known to the server from others.
    let _other = connected(server.url()).await;
    for rule in tried {
        let commands = COMMANDS.replace(&format!("{rule} "), "");
        let words = refused(clerk(&server, &format!("~lock:* &lock:* {commands}"))).await;
        let named = rule[1..].replace("@connection", "client|");
        assert!(words.contains(&named), "without {rule}: {words}");
    }
    let words = refused(clerk(&server, &format!("~other:* &lock:* {COMMANDS}"))).await;
    assert!(words.contains("~lock:*"), "{words}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_left_by_trying() {
    let server = Server::start();
    let _locks = connected(server.url()).await;
    assert_eq!(server.query::<usize>("DBSIZE"), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_permission_that_is_taken_away_is_found_by_a_check() {
    let server = Server::start();
    let config = clerk(
        &server,
        &format!("~lock:* &lock:* +info +config|get {COMMANDS}"),
    );
    let locks = connected(config).await;
    let found = |words: &str, warnings: &[lock_runtime::Warning]| {
        warnings.iter().any(|it| it.to_string().contains(words))
    };
    assert!(!found("publish", &locks.check_servers().await));
    server.query::<()>("ACL SETUSER clerk resetchannels &other:*");
    let warnings = locks.check_servers().await;
    assert!(found("publish", &warnings), "{warnings:?}");
}

/// The lock is passed on all the same, and found by asking.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_may_not_publish_is_done() {
    let server = Server::start();
    let config = clerk(&server, &format!("~lock:* &lock:* {COMMANDS}"));
    let locks = connected(config).await;
    let other = connected(server.url()).await;
    let holder = locks.lock("door").acquire().await.unwrap();
    let next = tokio::spawn(other.lock("door").wait(LONG).acquire());
    server.until_waiting("door", 1);
    server.query::<()>("ACL SETUSER clerk -publish");
    holder.release().await.unwrap();
    let guard = within(millis(2000), next).await.unwrap().unwrap();
    guard.release().await.unwrap();
}

/// What the user was refused is done as soon as it is permitted.
async fn refused_for_a_moment(server: &Server) {
    let refusals = || server.query::<Vec<redis::Value>>("ACL LOG").len();
    server.query::<()>("ACL LOG RESET");
    server.query::<()>("ACL SETUSER clerk -eval -evalsha");
    eventually(LONG, "it is refused", || refusals() > 0);
    server.query::<()>("ACL SETUSER clerk +eval +evalsha");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_is_repeated_though_it_was_refused() {
    let server = Server::start();
    let config = clerk(&server, &format!("~lock:* &lock:* {COMMANDS}"));
    let locks = connected(config).await;
    for awaited in [false, true] {
        let lock = locks.lock("door").ttl(LONG).renew(false);
        let guard = lock.acquire().await.unwrap();
        server.query::<()>("ACL SETUSER clerk -eval -evalsha");
        match awaited {
            false => drop(guard),
            true => assert!(guard.release().await.unwrap_err().is_unavailable()),
        }
        refused_for_a_moment(&server).await;
        server.until_gone("lock:door", millis(2000) + NOISE);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_outlives_a_refusal_of_a_moment() {
    let server = Server::start();
    let config = clerk(&server, &format!("~lock:* &lock:* {COMMANDS}"));
    let config = config.command_timeout(millis(5000));
    let locks = connected(config).await;
    server.query::<()>("SET lock:door somebody");
    let waiter = tokio::spawn(locks.lock("door").wait(LONG).acquire());
    server.until_waiting("door", 1);
    refused_for_a_moment(&server).await;
    server.query::<()>("DEL lock:door");
    let guard = within(LONG, waiter).await.unwrap().unwrap();
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_the_server_does_not_know_is_named_when_connecting() {
    for command in ["SUBSCRIBE", "EVALSHA"] {
        let server = Server::start();
        let unknown = "ERR unknown command, with args beginning with: `x`, ";
        let front = Refusing::to(server.port(), command, unknown, usize::MAX);
        let words = refused(Config::new(front.url())).await;
        assert!(words.contains("does not know a command"), "{words}");
    }
}

const BUSY: &str = "BUSY Redis is busy running a script. You can only call SCRIPT KILL.";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscription_that_is_refused_once_is_made() {
    let server = Server::start();
    let front = Refusing::to(server.port(), "SUBSCRIBE", BUSY, 2);
    let locks = connected(front.url()).await;
    server.query::<()>("SET lock:door somebody");
    let waiter = tokio::spawn(locks.lock("door").wait(LONG).acquire());
    eventually(millis(2000) + NOISE, "it listens", || {
        let listens: Vec<String> = server.query("PUBSUB CHANNELS lock:::grants:*");
        !listens.is_empty()
    });
    server.query::<()>("DEL lock:door");
    let guard = within(LONG, waiter).await.unwrap().unwrap();
    guard.release().await.unwrap();
}

/// What was sent on the last connection must not be carried out later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_connection_is_killed_though_that_is_refused_once() {
    let server = Server::start();
    let front = Refusing::to(server.port(), "CLIENT KILL", BUSY, 0);
    let locks = connected(front.url()).await;
    let guard = locks.lock("door").acquire().await.unwrap();
    let tried = front.carried_out();
    front.refuse(1);
    server.query::<()>("CLIENT KILL TYPE normal SKIPME yes");
    // It is asked something.
    drop(guard);
    eventually(millis(5000), "it is killed", || front.carried_out() > tried);
    locks.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_knows_no_resp3_is_refused() {
    let server = Server::start();
    let unknown = "ERR unknown command `HELLO`, with args beginning with: `3`, ";
    let front = Refusing::to(server.port(), "HELLO", unknown, usize::MAX);
    let words = refused(Config::new(front.url())).await;
    assert!(words.contains("Redis 6"), "{words}");
}
