//! A server that refuses one command within a script, by the user's ACL. That says nothing about the lock:
//! the reply is an error, or the same as without the refusal.

use lock_model::scripts;
use lock_test_support::server::Server;
use redis::{Connection, Script, Value};

use super::lua::{ALIVE, Names, WOKEN, ask, channel, connect, tombstone};
use super::script_trace::TTL;

/// The commands that scripts call.
const COMMANDS: [&str; 25] = [
    "get",
    "mget",
    "set",
    "del",
    "exists",
    "pexpire",
    "pexpireat",
    "pttl",
    "time",
    "type",
    "zadd",
    "zcard",
    "zpopmin",
    "zrange",
    "zrangebyscore",
    "zrevrangebyscore",
    "zremrangebyscore",
    "zrank",
    "zrem",
    "zscore",
    "hset",
    "hget",
    "hdel",
    "hexists",
    "publish",
];

/// The requests after which the lock may have no holder.
const RELEASES: [&str; 7] = [
    "release",
    "release and notify",
    "cancel",
    "leave",
    "withdraw",
    "revoke",
    "revoke and notify",
];

/// The requests that raise a counter, which stays.
const COUNTS: [&str; 4] = ["fencing token", "raise", "revoke", "revoke and notify"];

struct Request {
    name: &'static str,
    script: Script,
    /// How many of these a request names: the lock, its queue, its waiters, a tombstone, a counter.
    keys: usize,
    arguments: Vec<String>,
}

/// Returns all requests of a holder, and those of a waiter.
fn requests(holder: &str) -> Vec<Request> {
    let request = |name, script, keys, arguments: &[&str]| Request {
        name,
        script: Script::new(script),
        keys,
        arguments: arguments.iter().map(|it| (*it).to_owned()).collect(),
    };
    let [ttl, alive, woken] = [TTL, ALIVE, WOKEN].map(|time| time.to_string());
    let wait = [holder, &ttl, &channel(holder), &alive, &woken, "0"];
    let enqueue = ["e", &ttl, &channel("e"), &alive, &woken, "0"];
    vec![
        request("take", scripts::TAKE, 2, &[&ttl, "d/3"]),
        request("renew", scripts::RENEW, 1, &[holder, &ttl]),
        request("release", scripts::RELEASE, 3, &[holder]),
        request(
            "release and notify",
            scripts::RELEASE_AND_NOTIFY,
            3,
            &[holder],
        ),
        request("cancel", scripts::CANCEL, 4, &[holder, "0"]),
        request("leave", scripts::LEAVE_QUEUE, 4, &[holder, "0"]),
        request(
            "downgrade",
            scripts::DOWNGRADE,
            3,
            &[holder, "d/2047", &ttl],
        ),
        request("wait", scripts::WAIT, 4, &wait),
        request("enqueue", scripts::WAIT, 4, &enqueue),
        request("observe", scripts::OBSERVE, 3, &enqueue[..5]),
        request("vote", scripts::VOTE, 1, &[holder, &ttl]),
        request("withdraw", scripts::WITHDRAW, 1, &[holder]),
        request("revoke", scripts::REVOKE, 5, &[holder, "500", "1"]),
        request(
            "revoke and notify",
            scripts::REVOKE_AND_NOTIFY,
            5,
            &[holder, "0", "1"],
        ),
        request("fencing token", scripts::FENCING_TOKEN, 2, &[holder]),
        request("raise", scripts::RAISE_FENCING_TOKEN, 2, &[holder, "1"]),
    ]
}

/// Lets the tokens hold the lock, and another one wait for it unless they share it.
fn hold(admin: &mut Connection, names: &Names, holders: &[&str]) {
    ask::<()>(admin, &["FLUSHDB"]);
    for holder in holders {
        let take = Script::new(scripts::TAKE);
        let mut take = take.key(&names.lock);
        let taken: u32 = take
            .key(&names.queue)
            .arg(TTL)
            .arg(holder)
            .invoke(admin)
            .unwrap();
        assert_eq!(taken, 1);
    }
    if holders[0] != "a" {
        return;
    }
    let wait = Script::new(scripts::WAIT);
    let mut wait = wait.key(&names.lock);
    wait.key(&names.queue)
        .key(&names.waiters)
        .key(tombstone("b"));
    wait.arg("b")
        .arg(TTL)
        .arg(channel("b"))
        .arg(ALIVE)
        .arg(WOKEN)
        .arg(0);
    wait.invoke::<()>(admin).unwrap();
}

/// Returns `true` if the token holds the lock, as far as the reply says; `None` for an error.
fn held(names: &Names, request: &Request, clerk: &mut Connection) -> Option<bool> {
    let mut call = request.script.prepare_invoke();
    let (tombstone, counter) = (tombstone("a"), "lock:::fence".to_owned());
    let keys = [
        &names.lock,
        &names.queue,
        &names.waiters,
        &tombstone,
        &counter,
    ];
    for key in &keys[..request.keys] {
        call.key(key);
    }
    for argument in &request.arguments {
        call.arg(argument);
    }
    let reply = match call.invoke(clerk).ok()? {
        Value::Array(values) => values.into_iter().next()?,
        reply => reply,
    };
    Some(match reply {
        Value::Int(number) => number != 0,
        Value::BulkString(digits) => digits == b"1",
        _ => false,
    })
}

#[test]
fn refused_command_is_no_sign_of_another_holder() {
    let server = Server::start();
    let (names, mut admin, mut clerk) = (Names::of("door"), connect(&server), connect(&server));
    ask::<()>(
        &mut admin,
        &[
            "ACL", "SETUSER", "clerk", "on", "nopass", "+@all", "~*", "&*",
        ],
    );
    ask::<()>(&mut clerk, &["AUTH", "clerk", "any"]);
    for holders in [&["a"][..], &["a/3"], &["a/3", "c/3"]] {
        for request in requests(holders[0]) {
            let name = request.name;
            hold(&mut admin, &names, holders);
            let permitted = held(&names, &request, &mut clerk);
            let releases = RELEASES.contains(&name);
            for command in COMMANDS {
                hold(&mut admin, &names, holders);
                ask::<()>(
                    &mut admin,
                    &["ACL", "SETUSER", "clerk", &format!("-{command}")],
                );
                let reply = held(&names, &request, &mut clerk);
                ask::<()>(
                    &mut admin,
                    &["ACL", "SETUSER", "clerk", &format!("+{command}")],
                );
                assert!(
                    reply.is_none() || reply == permitted,
                    "{name} of {holders:?} without {command}: {reply:?} instead of {permitted:?}"
                );
                let is_there: bool = ask(&mut admin, &["EXISTS", &names.lock]);
                assert!(
                    is_there || releases,
                    "{name} without {command} deletes {holders:?}"
                );
                for key in ask::<Vec<String>>(&mut admin, &["KEYS", "*"]) {
                    let left: i64 = ask(&mut admin, &["PTTL", &key]);
                    assert!(
                        left != -1 || COUNTS.contains(&name),
                        "{name} without {command} leaves `{key}` for ever"
                    );
                }
            }
        }
    }
    ask::<()>(&mut admin, &["FLUSHDB"]);
}
