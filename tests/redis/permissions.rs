//! Connecting checks the user's permissions and the commands that the server knows.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use lock_runtime::{
    Config, Lock, LockError, LockGuard, LockInfo, LockManager, ReleaseMode, Revocation, Warning,
    WarningKind,
};

use lock_test_support::manager::{connected, until_renewed};
use lock_test_support::permissions;
use lock_test_support::refusing::Refusing;
use lock_test_support::server::Server;
use lock_test_support::time::{PATIENCE, eventually, millis, patient, soon};

const LONG: Duration = millis(60_000);

fn clerk(server: &Server, rules: &str) -> Config {
    let user = format!("ACL SETUSER clerk reset on >s3cret {rules}");
    server.query::<()>(&user);
    let config = patient(server.url()).command_timeout(millis(2000));
    config.credentials("clerk", "s3cret")
}

async fn refused(config: Config) -> String {
    let error = soon(LockManager::connect(config)).await.unwrap_err();
    assert!(matches!(error, LockError::InvalidConfig { .. }), "{error}");
    error.to_string()
}

/// Asserts that the lock is granted from one manager to a waiter of another.
async fn passes_on(server: &Server, config: Config) {
    let locks = connected(config.clone()).await;
    let other = connected(config).await;
    let holder = locks.lock("door").acquire().await.unwrap();
    let next = tokio::spawn(other.lock("door").wait(LONG).acquire());
    server.until_waiting("door", 1);
    holder.release().await.unwrap();
    let guard = soon(next).await.unwrap().unwrap();
    assert!(guard.fencing_token().await.unwrap() > 0);
    guard.release().await.unwrap();
}

/// Uses locks in all ways that have commands of their own.
async fn works(config: Config) {
    let (locks, other) = (connected(config.clone()).await, connected(config).await);
    let writer = locks.lock("door").acquire().await.unwrap();
    assert!(writer.fencing_token().await.unwrap() > 0);
    let next = tokio::spawn(other.lock("door").wait(LONG).acquire());
    let waits = async { while other.inspect("door").await.unwrap().waiters().is_empty() {} };
    soon(waits).await;
    let given_up = locks.lock("door").wait(millis(1)).acquire().await;
    assert!(given_up.is_err_and(|error| error.is_busy()));
    writer.release().await.unwrap();
    let reader = soon(next)
        .await
        .unwrap()
        .unwrap()
        .downgrade()
        .await
        .unwrap();
    let joins = locks.lock("door").read().acquire().await.unwrap();
    joins.release().await.unwrap();
    reader.release().await.unwrap();
    let all = locks.lock_all(["one", "two"]).acquire().await.unwrap();
    all.release().await.unwrap();
    let taken = locks.lock("taken").acquire().await.unwrap();
    let revoke = other.revoke("taken").grace(Duration::ZERO).force();
    assert!(matches!(
        soon(revoke.into_future()).await.unwrap(),
        Revocation::Taken { .. }
    ));
    drop(taken);
    other.processes().await.unwrap();
    locks.ping().await.unwrap();
    soon(async { tokio::join!(locks.shutdown(), other.shutdown()) }).await;
}

/// Connecting misses each command, or locks can do without it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn renamed_commands_are_missed_when_connecting() {
    let [documented, _] = permissions::commands();
    let needed = documented
        .split(' ')
        .filter_map(|word| word.strip_prefix('+'));
    let needed = needed.filter(|word| !word.starts_with('@'));
    let needed: BTreeSet<_> = needed.filter_map(|word| word.split('|').next()).collect();
    assert!(
        needed.contains("mget") && needed.contains("zrank"),
        "{needed:?}"
    );
    let others = ["hello", "client", "wait"];
    for command in needed.into_iter().chain(others) {
        let rename = ["--rename-command", command, ""].map(str::to_owned);
        let server = Server::with(None, |_, _| rename.to_vec());
        missed_or_not_needed(patient(server.url()), command).await;
    }
    // The tests ask a server themselves by some of these.
    let server = Server::start();
    for command in ["PING", "SELECT", "INFO", "ROLE", "SCAN", "CONFIG"] {
        let words = format!("ERR unknown command '{command}'").leak();
        let proxy = Refusing::to(server.port(), command, words, usize::MAX);
        missed_or_not_needed(patient(format!("{}3", proxy.url())), command).await;
    }
}

async fn missed_or_not_needed(config: Config, command: &str) {
    let config = config.command_timeout(millis(2000));
    match LockManager::connect(config.clone()).await {
        Ok(_) => works(config).await,
        Err(error) => {
            let is_config = matches!(error, LockError::InvalidConfig { .. });
            let words = error.to_string().to_lowercase();
            let names_it = words.contains(&command.to_lowercase()) || words.contains("resp3");
            assert!(is_config && names_it, "{command}: {words}");
        }
    }
}

/// Proxies have words of their own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_without_resp3_is_refused_whatever_its_words() {
    let server = Server::start();
    for words in [
        "ERR unknown command `HELLO`, with args beginning with: `3`",
        "NOPROTO unsupported protocol version",
        "unsupported command 'HELLO'",
        "ERR invalid request",
    ] {
        let proxy = Refusing::to(server.port(), "HELLO", words, usize::MAX);
        let refusal = refused(patient(proxy.url())).await;
        assert!(refusal.contains("RESP3"), "{words}: {refusal}");
    }
    // That passes.
    let full = "ERR max number of clients reached";
    let proxy = Refusing::to(server.port(), "HELLO", full, usize::MAX);
    connected(patient(proxy.url())).await;
}

/// Pastes the commands of the deployment guide into a shell.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documented_permissions_suffice() {
    let server = Server::start();
    permissions::paste(permissions::documented(), &server);
    let config = Config::new(server.url()).credentials("locks", "password");
    passes_on(&server, config.clone()).await;
    let not_checked = |warning: &Warning| warning.kind() == WarningKind::NotChecked;
    let warnings = connected(config).await.check_servers().await;
    assert!(!warnings.iter().any(not_checked), "{warnings:?}");
}

/// An operator has the permissions of a service, and `+scan`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documented_permissions_suffice_for_operators() {
    let server = Server::start();
    permissions::paste(permissions::documented(), &server);
    server.query::<()>("ACL SETUSER locks +scan");
    let config = Config::new(server.url()).credentials("locks", "password");
    let (locks, operator) = (connected(config.clone()).await, connected(config).await);
    let guard = locks.lock("door").acquire().await.unwrap();
    let reported = async {
        while operator.processes().await.unwrap().is_empty() {
            operator.ask_for_reports().await.unwrap();
        }
    };
    soon(reported).await;
    let found = operator.list("").scan().await.unwrap();
    assert_eq!(
        found.iter().map(LockInfo::key).collect::<Vec<_>>(),
        ["door"]
    );
    let revoke = operator.revoke("door").grace(Duration::ZERO).force();
    let revoked = soon(revoke.into_future()).await.unwrap();
    assert!(matches!(revoked, Revocation::Taken { .. }), "{revoked:?}");
    drop(guard);
}

fn ask<T: redis::FromRedisValue>(
    client: &mut redis::Connection,
    line: &str,
) -> redis::RedisResult<T> {
    let mut words = line.split(' ');
    let mut command = redis::cmd(words.next().unwrap());
    words.for_each(|word| _ = command.arg(word));
    command.query(client)
}

/// Pastes the command of the runbook into a shell, and looks as `locks` does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documented_permissions_suffice_for_readers() {
    let server = Server::start();
    permissions::paste(permissions::documented_viewer(), &server);
    let locks = connected(Config::new(server.url()).service("orders")).await;
    let guard = locks.lock("door").acquire().await.unwrap();
    let config = || Config::new(server.url()).credentials("viewer", "password");
    let refusal = refused(config()).await;
    assert!(refusal.contains("lacks a permission"), "{refusal}");

    let reader = connected(config().check_permissions(false)).await;
    let seen = async {
        loop {
            let found = reader.inspect("door").await.unwrap();
            if let Some(info) = found.holders()[0].process_info() {
                return info.service().to_owned();
            }
        }
    };
    assert_eq!(soon(seen).await, "orders");
    assert_eq!(reader.list("").await.unwrap().len(), 1);
    assert_eq!(reader.processes().await.unwrap().len(), 1);
    let errors = [
        reader.lock("other").acquire().await.err().unwrap(),
        reader.ask_for_reports().await.unwrap_err(),
        reader.ping().await.unwrap_err(),
        reader
            .revoke("door")
            .grace(Duration::ZERO)
            .force()
            .await
            .unwrap_err(),
        reader.list("").scan().await.unwrap_err(),
    ];
    for error in errors {
        let words = format!("{error:?}");
        // Redis words it so within scripts.
        let refused = ["no permissions", "can't run this command"];
        assert!(refused.iter().any(|it| words.contains(it)), "{words}");
    }
    assert!(guard.is_valid());
    guard.release().await.unwrap();
}

/// Pastes the command of the runbook into a shell, and tries what it says.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documented_viewer_sees_and_changes_nothing() {
    let server = Server::start();
    permissions::paste(permissions::documented_viewer(), &server);
    let (locks, other) = (
        connected(Config::new(server.url()).service("orders")).await,
        connected(patient(server.url())).await,
    );
    let guard = locks.lock("door").acquire().await.unwrap();
    let next = tokio::spawn(other.lock("door").wait(LONG).acquire());
    server.until_waiting("door", 1);
    let url = server.url().replace("://", "://viewer:password@");
    let mut viewer = redis::Client::open(url).unwrap().get_connection().unwrap();
    let token = ask::<String>(&mut viewer, "GET lock:door").unwrap();
    assert_eq!(&token[5..12], locks.process_id().to_string());
    assert!(ask::<i64>(&mut viewer, "PTTL lock:door").unwrap() > 0);
    let line = ask::<Vec<String>>(&mut viewer, "ZRANGE lock:::queue:door 0 -1").unwrap();
    assert_eq!(&line[0][5..12], other.process_id().to_string());
    eventually("it reports", || {
        let told = ask::<Vec<String>>(&mut viewer, "HGETALL lock:::reports").unwrap();
        told.iter().any(|text| text.starts_with("1\torders\t"))
    });
    for refused in [
        "DEL lock:door",
        "SET lock:door x",
        "PUBLISH lock:::asks report",
        "CONFIG GET x",
        "GET other",
    ] {
        let error = ask::<redis::Value>(&mut viewer, refused).unwrap_err();
        assert_eq!(error.code(), Some("NOPERM"), "`{refused}`: {error}");
    }
    let readers = [locks.lock("page").read(), other.lock("page").read()];
    let [one, two] = readers.map(Lock::acquire);
    let readers = (one.await.unwrap(), two.await.unwrap());
    let shared = ask::<Vec<String>>(&mut viewer, "ZRANGE lock:page 0 -1").unwrap();
    let mut expected = [&locks, &other].map(|it| it.process_id().to_string());
    expected.sort();
    let mut shown: Vec<_> = shared.iter().map(|token| token[5..12].to_owned()).collect();
    shown.sort();
    assert_eq!(shown, expected);
    drop(readers);

    guard.release().await.unwrap();
    soon(next).await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn minimal_permissions_suffice() {
    let server = Server::start();
    let [commands, _] = permissions::commands();
    let config = clerk(&server, &format!("~lock:* &lock:* {commands}"));
    passes_on(&server, config).await;
    // Without `PUBSUB NUMSUB`, the reply of `PUBLISH` approximates the number of subscribers.
    let commands = commands.replace(" +pubsub|numsub", "");
    let config = clerk(&server, &format!("~lock:* &lock:* {commands}"));
    passes_on(&server, config).await;
}

/// The runbook says so: the lock comes at the end of its tenure, and the server's log has the channel.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn user_who_may_not_recall_waits_until_the_lock_is_given_back() {
    let server = Server::start();
    let [commands, _] = permissions::commands();
    let rules = format!("~lock:* &lock:::grants:* &lock:::asks {commands}");
    let (keeper, waiter) = (
        connected(patient(server.url())).await,
        connected(clerk(&server, &rules)).await,
    );
    let ttl = millis(6_000);
    let kept = async {
        while keeper.stats().kept == 0 {
            let lock = keeper.lock("door").ttl(ttl).release_mode(ReleaseMode::Lazy);
            lock.acquire().await.unwrap().release().await.unwrap();
        }
    };
    soon(kept).await;
    let guard = soon(waiter.lock("door").wait(LONG).acquire()).await;
    assert_eq!((keeper.stats().recalled, keeper.stats().lost), (0, 0));
    let log = format!("{:?}", server.query::<redis::Value>("ACL LOG"));
    let channel = format!("lock:::recalls:{}", keeper.process_id());
    assert!(log.contains(&channel) && log.contains("clerk"), "{log}");
    guard.unwrap().release().await.unwrap();
}

/// A shared lock is acquired by a script. A server that must not load it ahead gets its source.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_need_not_be_loaded_ahead() {
    let server = Server::start();
    let [commands, _] = permissions::commands();
    let commands = format!("{commands} ").replace("+script|load ", "");
    let config = clerk(&server, &format!("~lock:* &lock:* {commands}"));
    let locks = connected(config).await;
    server.query::<()>("SCRIPT FLUSH");
    let reader = locks.lock("page").read().acquire().await.unwrap();
    server.query::<()>("SCRIPT FLUSH");
    reader.release().await.unwrap();
    assert!(!server.exists("lock:page"));
}

/// The guide, the protocol and the error of a user without permissions list the same ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permissions_are_the_same_wherever_they_are_listed() {
    let sorted = |text: &str| {
        let words = text.split(|c: char| c.is_whitespace() || "`'".contains(c));
        let rules = words.filter(|word| word.starts_with(['~', '&', '+']));
        let mut rules: Vec<_> = rules.map(str::to_owned).collect();
        rules.sort();
        rules.dedup();
        rules
    };
    let section = |text: &'static str, title| {
        let (_, section) = text.split_once(title).unwrap();
        sorted(
            section
                .split_once("\n# ")
                .map_or(section, |(section, _)| section),
        )
    };
    let (protocol, _) = include_str!("../../PROTOCOL.md")
        .split_once("\n## PostgreSQL")
        .unwrap();
    let guide = include_str!("../../lock-runtime/src/guide/deployment.md");
    assert_eq!(
        section(guide, "# Permissions"),
        section(protocol, "## Permissions")
    );

    let server = Server::start();
    let words = refused(clerk(&server, "~lock:* &lock:* +@connection")).await;
    let (_, advice) = words.split_once("ACL SETUSER").unwrap();
    let [commands, _] = permissions::commands();
    assert_eq!(
        sorted(advice),
        sorted(&format!("~lock:* &lock:* {commands}"))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_channel_permission_is_reported_on_connect() {
    let server = Server::start();
    let words = refused(clerk(&server, "~lock:* resetchannels +@all")).await;
    assert!(words.contains("publish"), "{words}");
    assert!(words.contains("&lock:*"), "{words}");
    let words = refused(clerk(&server, "~lock:* &other:* +@all")).await;
    assert!(words.contains("&lock:*"), "{words}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_command_permission_is_named_on_connect() {
    let server = Server::start();
    let [all, _] = permissions::commands();
    let tried = all.split_whitespace().filter(|rule| {
        // Locks work without these.
        !["+script|load", "+pubsub|numsub"].contains(rule)
    });
    // The server may have cached the scripts from another client.
    let _other = connected(patient(server.url())).await;
    for rule in tried {
        let commands = format!("{all} ").replace(&format!("{rule} "), "");
        let words = refused(clerk(&server, &format!("~lock:* &lock:* {commands}"))).await;
        let named = rule[1..].replace("@connection", "client|");
        assert!(words.contains(&named), "without {rule}: {words}");
    }
    let words = refused(clerk(&server, &format!("~other:* &lock:* {all}"))).await;
    assert!(words.contains("~lock:*"), "{words}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permission_check_leaves_no_keys() {
    let server = Server::start();
    let _locks = connected(patient(server.url())).await;
    assert_eq!(server.query::<usize>("DBSIZE"), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn revoked_permission_is_found_by_check() {
    let server = Server::start();
    let [commands, checks] = permissions::commands();
    let config = clerk(&server, &format!("~lock:* &lock:* {commands} {checks}"));
    let locks = connected(config).await;
    let found = |words: &str, warnings: &[lock_runtime::Warning]| {
        warnings.iter().any(|it| it.to_string().contains(words))
    };
    assert!(!found("publish", &locks.check_servers().await));
    server.query::<()>("ACL SETUSER clerk resetchannels &other:*");
    let warnings = locks.check_servers().await;
    assert!(found("publish", &warnings), "{warnings:?}");
}

/// The lock is granted nevertheless, and the waiter finds it by polling.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn release_without_publish_permission_succeeds() {
    let server = Server::start();
    let [commands, _] = permissions::commands();
    let config = clerk(&server, &format!("~lock:* &lock:* {commands}"));
    let locks = connected(config).await;
    let other = connected(patient(server.url())).await;
    let holder = locks.lock("door").acquire().await.unwrap();
    let next = tokio::spawn(other.lock("door").wait(LONG).acquire());
    server.until_waiting("door", 1);
    server.query::<()>("ACL SETUSER clerk -publish");
    holder.release().await.unwrap();
    let guard = soon(next).await.unwrap().unwrap();
    guard.release().await.unwrap();
}

/// Denies `EVAL` and `EVALSHA` to the user until one request was rejected.
async fn refused_for_a_moment(server: &Server) {
    let refusals = || server.query::<Vec<redis::Value>>("ACL LOG").len();
    server.query::<()>("ACL LOG RESET");
    server.query::<()>("ACL SETUSER clerk -eval -evalsha");
    eventually("a request is rejected", || refusals() > 0);
    server.query::<()>("ACL SETUSER clerk +eval +evalsha");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rejected_release_is_retried() {
    let server = Server::start();
    let [commands, _] = permissions::commands();
    let config = clerk(&server, &format!("~lock:* &lock:* {commands}"));
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
        server.until_gone("lock:door");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiter_survives_temporary_rejection() {
    let server = Server::start();
    let [commands, _] = permissions::commands();
    let config = clerk(&server, &format!("~lock:* &lock:* {commands}"));
    let config = config.command_timeout(PATIENCE);
    let locks = connected(config).await;
    server.query::<()>("SET lock:door other-client");
    let waiter = tokio::spawn(locks.lock("door").wait(LONG).acquire());
    server.until_waiting("door", 1);
    refused_for_a_moment(&server).await;
    server.query::<()>("DEL lock:door");
    let guard = soon(waiter).await.unwrap().unwrap();
    guard.release().await.unwrap();
}

/// Returns one lock with one holder, and one that two share.
async fn held(locks: &LockManager, ttl: Duration) -> [LockGuard; 3] {
    let alone = locks.lock("alone").ttl(ttl).acquire();
    let shared = || locks.lock("shared").permits(3).ttl(ttl).acquire();
    let (alone, one, other) = tokio::join!(alone, shared(), shared());
    [alone.unwrap(), one.unwrap(), other.unwrap()]
}

/// A refusal says nothing about the holder.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn command_refused_within_renewal_ends_no_lease() {
    let server = Server::start();
    let [commands, _] = permissions::commands();
    let refused_to = |user: &str| {
        let log = server.query::<Vec<HashMap<String, String>>>("ACL LOG 100");
        log.iter().any(|entry| entry["username"] == user)
    };
    let ends_no_lease = async |command: &str| {
        let user = format!("clerk-{command}");
        let rules = format!("~{command}:* &{command}:* {commands}");
        server.query::<()>(&format!("ACL SETUSER {user} on >s3cret {rules}"));
        let config = patient(server.url()).credentials(&user, "s3cret");
        let locks = connected(config.prefix(format!("{command}:"))).await;
        let guards = held(&locks, millis(6000)).await;
        server.query::<()>(&format!("ACL SETUSER {user} -{command}"));
        while !refused_to(&user) {
            tokio::time::sleep(millis(10)).await;
        }
        server.query::<()>(&format!("ACL SETUSER {user} +{command}"));
        until_renewed(&guards).await;
        for guard in guards {
            guard.release().await.expect(command);
        }
    };
    soon(async {
        tokio::join!(
            ends_no_lease("get"),
            ends_no_lease("zscore"),
            ends_no_lease("time"),
            ends_no_lease("pexpire"),
            ends_no_lease("pttl"),
            ends_no_lease("pexpireat"),
            ends_no_lease("zadd"),
        )
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unknown_command_is_reported_on_connect() {
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
async fn rejected_subscription_is_retried() {
    let server = Server::start();
    let front = Refusing::to(server.port(), "SUBSCRIBE", BUSY, 2);
    let locks = connected(front.url()).await;
    server.query::<()>("SET lock:door other-client");
    let waiter = tokio::spawn(locks.lock("door").wait(LONG).acquire());
    eventually("the process is subscribed", || {
        let listens: Vec<String> = server.query("PUBSUB CHANNELS lock:::grants:*");
        !listens.is_empty()
    });
    server.query::<()>("DEL lock:door");
    let guard = soon(waiter).await.unwrap().unwrap();
    guard.release().await.unwrap();
}

/// Requests sent on the previous connection must not be executed later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rejected_kill_of_previous_connection_is_retried() {
    let server = Server::start();
    let front = Refusing::to(server.port(), "CLIENT KILL", BUSY, 0);
    let locks = connected(front.url()).await;
    let guard = locks.lock("door").acquire().await.unwrap();
    let tried = front.carried_out();
    front.refuse(1);
    server.query::<()>("CLIENT KILL TYPE normal SKIPME yes");
    // This sends a request.
    drop(guard);
    eventually("the previous connection is killed", || {
        front.carried_out() > tried
    });
    locks.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_without_resp3_is_rejected() {
    let server = Server::start();
    let unknown = "ERR unknown command `HELLO`, with args beginning with: `3`, ";
    let front = Refusing::to(server.port(), "HELLO", unknown, usize::MAX);
    let words = refused(Config::new(front.url())).await;
    assert!(words.contains("Redis 6"), "{words}");
}
