//! The guarantees of the scripts, step by step.

use redis::Connection;

use super::lua::{Claim, Lua, Names, ask, channel, connect, tombstone};
use super::script_trace::Answer::{Acquired, Holds, IsQueued, Void};
use super::script_trace::Step::*;
use super::script_trace::{TTL, Trace, play};
use lock_test_support::server::Server;

#[test]
fn repeated_wait_by_holder_reports_held_and_keeps_lease() {
    play(&[
        Waits('a', Acquired),
        Lease(TTL - 2000, TTL),
        LeaseIsCutTo(5000),
        Waits('a', Holds),
        Lease(1, 5000),
        NoOtherMessage,
    ]);
}

#[test]
fn wait_after_acquire_reports_held() {
    play(&[
        Acquires('a', true),
        Waits('a', Holds),
        Waits('b', IsQueued(0, 1)),
    ]);
}

#[test]
fn repeated_wait_keeps_one_queue_entry() {
    play(&[
        Acquires('d', true),
        Waits('a', IsQueued(0, 1)),
        Waits('b', IsQueued(1, 2)),
        Waits('a', IsQueued(0, 2)),
        Waits('b', IsQueued(1, 2)),
        Waits('a', IsQueued(0, 2)),
        Queue("ab"),
    ]);
}

#[test]
fn grants_follow_arrival_order() {
    play(&[
        Acquires('d', true),
        Waits('c', IsQueued(0, 1)),
        Waits('a', IsQueued(1, 2)),
        Waits('b', IsQueued(2, 3)),
        NotifiedOfOthers('c'),
        Waits('c', IsQueued(0, 3)),
        Releases('d', true),
        Granted('c', 2000),
        Holder('c'),
        Queue("ab"),
        Waits('d', IsQueued(2, 3)),
        Releases('c', true),
        Granted('a', 2000),
        Releases('a', true),
        Granted('b', 2000),
        Releases('b', true),
        Granted('d', 2000),
        Holder('d'),
        Queue(""),
        Releases('d', true),
        Free,
        NoOtherMessage,
    ]);
}

#[test]
fn cancel_keeps_order_of_remaining_waiters() {
    play(&[
        Acquires('d', true),
        Waits('a', IsQueued(0, 1)),
        Waits('b', IsQueued(1, 2)),
        Cancels('b', false),
        Waits('c', IsQueued(1, 2)),
        Cancels('a', false),
        Waits('a', IsQueued(1, 2)),
        Queue("ca"),
        Releases('d', true),
        Holder('c'),
    ]);
}

#[test]
fn granted_lock_cannot_be_acquired() {
    play(&[
        Acquires('d', true),
        Waits('a', IsQueued(0, 1)),
        Releases('d', true),
        Acquires('b', false),
        Releases('d', false),
        Releases('b', false),
        Holder('a'),
    ]);
}

#[test]
fn free_lock_is_reserved_for_first_waiter() {
    play(&[
        Acquires('d', true),
        Waits('a', IsQueued(0, 1)),
        Waits('b', IsQueued(1, 2)),
        NotifiedOfOthers('a'),
        Expires,
        Waits('b', IsQueued(1, 2)),
        Woken('a'),
        Reserved,
        Waits('b', IsQueued(1, 2)),
        NoOtherMessage,
        Waits('a', Acquired),
        Holder('a'),
        Queue("b"),
        Expires,
        Waits('c', IsQueued(1, 2)),
        Woken('b'),
        NotifiedOfOthers('b'),
        Waits('b', Acquired),
        Expires,
        Waits('c', Acquired),
        Lease(TTL - 2000, TTL),
        NoOtherMessage,
    ]);
}

#[test]
fn woken_waiters_are_not_overtaken() {
    play(&[
        Acquires('d', true),
        Waits('a', IsQueued(0, 1)),
        Expires,
        Waits('b', IsQueued(1, 2)),
        Woken('a'),
        NotifiedOfOthers('a'),
        Acquires('d', false),
        Waits('c', IsQueued(2, 3)),
        Cancels('c', false),
        Releases('d', false),
        Reserved,
        Waits('a', Acquired),
        Releases('a', true),
        Granted('b', 2000),
    ]);
}

/// All silent waiters are woken together, not one after the other.
#[test]
fn woken_waiter_that_does_not_poll_is_removed() {
    play(&[
        Acquires('d', true),
        Waits('a', IsQueued(0, 1)),
        Waits('b', IsQueued(1, 2)),
        NotifiedOfOthers('a'),
        Waits('c', IsQueued(2, 3)),
        Expires,
        Waits('d', IsQueued(3, 4)),
        Woken('a'),
        Woken('b'),
        Woken('c'),
        Waits('c', IsQueued(2, 4)),
        Queue("abcd"),
        WakeExpires,
        Waits('d', IsQueued(1, 2)),
        Woken('c'),
        Queue("cd"),
        Waits('c', Acquired),
        Releases('c', true),
        Granted('d', 2000),
        NoOtherMessage,
    ]);
}

#[test]
fn unresponsive_woken_waiter_is_not_granted_lock() {
    play(&[
        Acquires('d', true),
        Waits('a', IsQueued(0, 1)),
        Waits('b', IsQueued(1, 2)),
        NotifiedOfOthers('a'),
        Expires,
        Waits('c', IsQueued(2, 3)),
        Woken('a'),
        Woken('b'),
        Waits('a', Acquired),
        WakeExpiresFor('a'),
        Releases('a', true),
        Granted('c', 2000),
        Queue(""),
    ]);
}

#[test]
fn canceled_woken_waiter_makes_room_for_next() {
    play(&[
        Acquires('d', true),
        Waits('a', IsQueued(0, 1)),
        Waits('b', IsQueued(1, 2)),
        NotifiedOfOthers('a'),
        Expires,
        Waits('b', IsQueued(1, 2)),
        Woken('a'),
        Cancels('a', false),
        NotifiedFirst('b'),
        Reserved,
        Waits('b', Acquired),
    ]);
}

#[test]
fn first_waiter_acquires_free_lock() {
    play(&[
        Acquires('d', true),
        Waits('a', IsQueued(0, 1)),
        Waits('b', IsQueued(1, 2)),
        Expires,
        Waits('a', Acquired),
        Queue("b"),
    ]);
}

#[test]
fn late_release_grants_free_lock_to_first_waiter() {
    play(&[
        Acquires('d', true),
        Waits('a', IsQueued(0, 1)),
        Expires,
        Releases('d', false),
        Granted('a', 2000),
        Holder('a'),
    ]);
}

#[test]
fn cancel_grants_free_lock_to_next_waiter() {
    play(&[
        Acquires('d', true),
        Waits('a', IsQueued(0, 1)),
        Waits('b', IsQueued(1, 2)),
        NotifiedOfOthers('a'),
        Expires,
        Cancels('a', false),
        Granted('b', 2000),
        Holder('b'),
        NoOtherMessage,
    ]);
}

#[test]
fn cancel_releases_granted_lock() {
    play(&[
        Acquires('d', true),
        Waits('a', IsQueued(0, 1)),
        Waits('b', IsQueued(1, 2)),
        Releases('d', true),
        Holder('a'),
        Cancels('a', true),
        Granted('b', 2000),
        Cancels('a', false),
        Holder('b'),
    ]);
}

#[test]
fn cancel_releases_acquired_lock() {
    play(&[Acquires('a', true), Cancels('a', true), Free]);
}

#[test]
fn late_wait_after_cancel_is_void() {
    play(&[
        Acquires('d', true),
        Waits('a', IsQueued(0, 1)),
        CancelsUnanswered('a', false),
        Waits('a', Void),
        Queue(""),
        Releases('d', true),
        Waits('a', Void),
        Free,
        Forgets('a'),
        Waits('a', Acquired),
    ]);
}

#[test]
fn wait_overtaken_by_cancel_is_void() {
    play(&[
        CancelsUnanswered('a', false),
        Waits('a', Void),
        Free,
        Queue(""),
        Waits('b', Acquired),
        Forgets('a'),
    ]);
}

#[test]
fn expired_wait_is_void() {
    play(&[
        WaitsVoidAfter('a', -1, Void),
        Free,
        Acquires('d', true),
        WaitsVoidAfter('a', -1, Void),
        Queue(""),
        WaitsVoidAfter('a', 15_000, IsQueued(0, 1)),
        WaitsVoidAfter('a', -1, Void),
        Queue("a"),
    ]);
}

#[test]
fn silent_waiter_is_skipped() {
    play(&[
        Acquires('d', true),
        Waits('a', IsQueued(0, 1)),
        Waits('b', IsQueued(1, 2)),
        NotifiedOfOthers('a'),
        Waits('c', IsQueued(2, 3)),
        StopsPolling('a'),
        StopsPolling('b'),
        Releases('d', true),
        Granted('c', 2000),
        Queue(""),
        NoOtherMessage,
    ]);
}

#[test]
fn silent_waiter_that_polls_counts_as_alive() {
    play(&[
        Acquires('d', true),
        Waits('a', IsQueued(0, 1)),
        Waits('b', IsQueued(1, 2)),
        NotifiedOfOthers('a'),
        StopsPolling('a'),
        Waits('a', IsQueued(0, 2)),
        Releases('d', true),
        Granted('a', 2000),
    ]);
}

#[test]
fn disconnected_waiter_is_skipped() {
    play(&[
        Acquires('d', true),
        Waits('a', IsQueued(0, 1)),
        Waits('b', IsQueued(1, 2)),
        Waits('c', IsQueued(2, 3)),
        Disconnects('a'),
        Disconnects('b'),
        Releases('d', true),
        Granted('c', 2000),
        Holder('c'),
        Queue(""),
    ]);
}

#[test]
fn lock_is_free_when_all_waiters_are_gone() {
    for silent in [true, false] {
        let gone = |who| {
            if silent {
                StopsPolling(who)
            } else {
                Disconnects(who)
            }
        };
        play(&[
            Acquires('d', true),
            Waits('a', IsQueued(0, 1)),
            Waits('b', IsQueued(1, 2)),
            gone('a'),
            gone('b'),
            Releases('d', true),
            Free,
            Queue(""),
            Acquires('c', true),
        ]);
    }
}

#[test]
fn free_lock_behind_dead_waiter_goes_to_new_caller() {
    play(&[
        Acquires('d', true),
        Waits('a', IsQueued(0, 1)),
        Disconnects('a'),
        Expires,
        Waits('b', Acquired),
        Lease(TTL - 2000, TTL),
        Queue(""),
    ]);
}

#[test]
fn free_lock_behind_dead_waiter_goes_to_next_waiter() {
    play(&[
        Acquires('d', true),
        Waits('a', IsQueued(0, 1)),
        Waits('b', IsQueued(1, 2)),
        NotifiedOfOthers('a'),
        Disconnects('a'),
        Expires,
        Waits('b', Acquired),
        Lease(TTL - 2000, TTL),
        Queue(""),
        NoOtherMessage,
    ]);
}

#[test]
fn grant_lasts_two_seconds_or_shorter_ttl() {
    play(&[
        Acquires('d', true),
        WaitsFor('a', 500, IsQueued(0, 1)),
        WaitsFor('b', 1_000_000, IsQueued(1, 2)),
        WaitsFor('c', 2000, IsQueued(2, 3)),
        NotifiedOfOthers('a'),
        Releases('d', true),
        Granted('a', 500),
        Lease(1, 500),
        Releases('a', true),
        Granted('b', 2000),
        Lease(1, 2000),
        Releases('b', true),
        Granted('c', 2000),
    ]);
}

#[test]
fn repeated_wait_updates_ttl() {
    play(&[
        Acquires('d', true),
        WaitsFor('a', 60_000, IsQueued(0, 1)),
        WaitsFor('a', 300, IsQueued(0, 1)),
        Releases('d', true),
        Granted('a', 300),
    ]);
}

#[test]
fn first_waiter_is_notified_of_second_waiter() {
    play(&[
        Acquires('d', true),
        Waits('a', IsQueued(0, 1)),
        NoOtherMessage,
        Waits('b', IsQueued(1, 2)),
        NotifiedOfOthers('a'),
        Waits('b', IsQueued(1, 2)),
        Waits('c', IsQueued(2, 3)),
        NoOtherMessage,
        Cancels('c', false),
        Cancels('b', false),
        Waits('c', IsQueued(1, 2)),
        NotifiedOfOthers('a'),
    ]);
}

/// A waiter that becomes first must know it, because the first waiter polls more often.
#[test]
fn waiter_that_becomes_first_is_notified() {
    play(&[
        Acquires('d', true),
        Waits('a', IsQueued(0, 1)),
        Waits('b', IsQueued(1, 2)),
        Waits('c', IsQueued(2, 3)),
        NotifiedOfOthers('a'),
        Releases('d', true),
        Granted('a', 2000),
        NotifiedFirst('b'),
        Cancels('b', false),
        NotifiedFirst('c'),
        Waits('b', IsQueued(1, 2)),
        NotifiedOfOthers('c'),
        CancelsUnanswered('c', false),
        NotifiedFirst('b'),
        Waits('d', IsQueued(1, 2)),
        NotifiedOfOthers('b'),
        Cancels('a', true),
        Granted('b', 2000),
        NotifiedFirst('d'),
        Forgets('c'),
    ]);
}

#[test]
fn disconnected_next_waiter_is_skipped_when_first_leaves() {
    play(&[
        Acquires('d', true),
        Waits('a', IsQueued(0, 1)),
        Waits('b', IsQueued(1, 2)),
        Waits('c', IsQueued(2, 3)),
        Disconnects('b'),
        Cancels('a', false),
        NotifiedFirst('c'),
        Queue("c"),
    ]);
}

#[test]
fn full_server_grants_locks_to_waiters() {
    play(&[
        Acquires('d', true),
        Waits('a', IsQueued(0, 1)),
        Waits('b', IsQueued(1, 2)),
        Waits('c', IsQueued(2, 3)),
        NotifiedOfOthers('a'),
        MemoryIsFull,
        Releases('d', true),
        Granted('a', 2000),
        Cancels('a', true),
        Granted('b', 2000),
        Expires,
        Releases('b', false),
        Granted('c', 2000),
        Waits('c', Holds),
        Releases('c', true),
        Free,
        MemoryIsFree,
    ]);
}

#[test]
fn full_server_skips_dead_waiters() {
    play(&[
        Acquires('d', true),
        Waits('a', IsQueued(0, 1)),
        Waits('b', IsQueued(1, 2)),
        Waits('c', IsQueued(2, 3)),
        Disconnects('a'),
        StopsPolling('b'),
        MemoryIsFull,
        Releases('d', true),
        Granted('c', 2000),
        CancelsUnanswered('c', true),
        Waits('c', Void),
        MemoryIsFree,
        Forgets('c'),
    ]);
}

#[test]
fn full_server_reserves_free_lock_for_first_waiter() {
    play(&[
        Acquires('d', true),
        Waits('a', IsQueued(0, 1)),
        Waits('b', IsQueued(1, 2)),
        NotifiedOfOthers('a'),
        MemoryIsFull,
        Expires,
        Waits('b', IsQueued(1, 2)),
        Woken('a'),
        Reserved,
        Waits('a', Acquired),
        MemoryIsFree,
    ]);
}

#[test]
fn queue_keys_expire() {
    let mut trace = Trace::new(Server::slow(), "door");
    trace.play(&[
        Acquires('d', true),
        Waits('a', IsQueued(0, 1)),
        Waits('b', IsQueued(1, 2)),
        CancelsUnanswered('c', false),
    ]);
    let Names { queue, waiters, .. } = trace.names.clone();
    for key in [queue, waiters, tombstone("c")] {
        let left: i64 = ask(&mut trace.connection, &["PTTL", &key]);
        assert!((1..=50_000).contains(&left), "`{key}` expires in {left} ms");
    }
    trace.play(&[Cancels('d', true), Forgets('c')]);
    trace.leave();
}

const ODD_KEYS: [&str; 12] = [
    "a b",
    " ",
    "{x}y",
    "}{",
    "two\nlines\r\n",
    "tab\there",
    "Тür №7 🔑",
    "%s %d %",
    "'\"\\",
    "nul\0byte",
    "grant a 1 2 lock:b",
    ":queue:door",
];

#[test]
fn any_key_is_accepted() {
    let mut server = Server::slow();
    for key in ODD_KEYS {
        let mut trace = Trace::new(server, key);
        trace.play(&[
            Acquires('d', true),
            Waits('a', IsQueued(0, 1)),
            Waits('b', IsQueued(1, 2)),
            NotifiedOfOthers('a'),
            Releases('d', true),
            Granted('a', 2000),
            Expires,
            Waits('c', IsQueued(1, 2)),
            Woken('b'),
            NotifiedOfOthers('b'),
            Waits('b', Acquired),
            Cancels('c', false),
        ]);
        trace.leave();
        server = trace.server;
    }
}

/// Connects as a user that may access only the keys of one lock.
fn confined(server: &Server, names: &Names, tokens: &[&str]) -> Connection {
    let mut connection = connect(server);
    let mut user = redis::cmd("ACL");
    user.arg("SETUSER").arg("narrow").arg("on").arg("nopass");
    user.arg("+@all")
        .arg("&lock:::grants:*")
        .arg("~lock:::fence");
    for key in [&names.lock, &names.queue, &names.waiters] {
        user.arg(format!("~{key}"));
    }
    for token in tokens {
        user.arg(format!("~{}", tombstone(token)));
    }
    user.exec(&mut connection).unwrap();
    ask::<()>(&mut connection, &["AUTH", "narrow", "any"]);
    let foreign = redis::cmd("GET").arg("lock:gate").exec(&mut connection);
    assert_eq!(foreign.unwrap_err().code(), Some("NOPERM"));
    connection
}

#[test]
fn scripts_access_only_keys_of_their_lock() {
    let server = Server::start();
    let (lua, names) = (Lua::new(), Names::of("door"));
    let mut narrow = confined(&server, &names, &["a", "b", "c"]);
    let [a, b, c] = ["a", "b", "c"].map(|token| Claim {
        names: &names,
        token,
        ttl: TTL,
    });
    assert_eq!(lua.wait(&mut narrow, &a, 0).unwrap()[0], 1);
    assert_eq!(lua.wait(&mut narrow, &b, 0).unwrap()[0], 2);
    assert_eq!(lua.wait(&mut narrow, &c, 0).unwrap()[0], 2);
    let mut fence = lua.fence.prepare_invoke();
    fence.key(&names.lock).key("lock:::fence").arg("a");
    assert!(fence.invoke::<u64>(&mut narrow).unwrap() > 0);
    let mut renew = lua.renew.prepare_invoke();
    renew.key(&names.lock).arg("a").arg(TTL);
    assert_eq!(renew.invoke::<String>(&mut narrow).unwrap(), "1");
    assert!(lua.release(&mut narrow, &a).unwrap());
    assert!(!lua.cancel(&mut narrow, &c, 100).unwrap());
    assert!(!lua.cancel(&mut narrow, &b, 0).unwrap());
}

/// The key holds a hash of another client: the lock counts as held, and other locks are unaffected.
#[test]
fn key_of_wrong_type_counts_as_held() {
    let server = Server::start();
    let (lua, names) = (Lua::new(), Names::of("door"));
    let mut connection = connect(&server);
    let claim = |token| Claim {
        names: &names,
        token,
        ttl: TTL,
    };
    ask::<()>(&mut connection, &["HSET", "lock:door", "field", "value"]);
    let answer = lua.wait(&mut connection, &claim("a"), 0).unwrap();
    assert_eq!((answer[0], answer[3], answer[4]), (2, 0, 1));
    assert!(
        !lua.cancel(&mut connection, &claim("a"), 100)
            .expect("a cancel")
    );
    assert!(
        !lua.release(&mut connection, &claim("a"))
            .expect("a release")
    );
    let mut renew = lua.renew.prepare_invoke();
    ask::<()>(&mut connection, &["SET", "lock:gate", "a", "PX", "30000"]);
    renew.key("lock:door").key("lock:gate");
    renew.arg("a").arg(TTL).arg("a").arg(TTL);
    let renewed: String = renew.invoke(&mut connection).expect("a renewal");
    assert_eq!(renewed, "01", "the other lock is renewed");
    ask::<()>(&mut connection, &["DEL", "lock:door", "lock:gate"]);
}

/// A call for several locks treats each as a call of its own would.
#[test]
fn release_of_several_locks_treats_each_alone() {
    let server = Server::start();
    let lua = Lua::new();
    let mut connection = connect(&server);
    let mut listener = connect(&server);
    let mut listener = listener.as_pubsub();
    let names = ["held", "waited", "taken", "expired", "typed"].map(Names::of);
    for (names, waits) in [(&names[1], "w"), (&names[3], "x")] {
        listener.subscribe(channel(waits)).unwrap();
        ask::<()>(&mut connection, &["SET", &names.lock, "a", "PX", "30000"]);
        let claim = Claim {
            names,
            token: waits,
            ttl: TTL,
        };
        assert_eq!(lua.wait(&mut connection, &claim, 0).unwrap()[0], 2);
    }
    ask::<()>(
        &mut connection,
        &["SET", &names[0].lock, "a", "PX", "30000"],
    );
    ask::<()>(
        &mut connection,
        &["SET", &names[2].lock, "z", "PX", "30000"],
    );
    ask::<()>(&mut connection, &["DEL", &names[3].lock]);
    ask::<()>(&mut connection, &["HSET", &names[4].lock, "field", "value"]);
    let mut release = lua.release.prepare_invoke();
    for key in [
        |names: &Names| names.lock.clone(),
        |names: &Names| names.queue.clone(),
        |names: &Names| names.waiters.clone(),
    ] {
        for names in &names {
            release.key(key(names));
        }
    }
    for _ in &names {
        release.arg("a");
    }
    let answer: String = release.invoke(&mut connection).unwrap();
    assert_eq!(answer, "11000");
    let holders: Vec<Option<String>> = ask(
        &mut connection,
        &[
            "MGET",
            "lock:held",
            "lock:waited",
            "lock:taken",
            "lock:expired",
        ],
    );
    let holders: Vec<_> = holders.iter().map(Option::as_deref).collect();
    assert_eq!(holders, [None, Some("w"), Some("z"), Some("x")]);
    let kind: String = ask(&mut connection, &["TYPE", "lock:typed"]);
    assert_eq!(kind, "hash", "the key of another client stays");
    for names in &names {
        ask::<()>(&mut connection, &["DEL", &names.lock]);
    }
}

/// Releases of one lock in one call: what a client has left behind, and the lock that it holds. Only the
/// first waiter is granted the lock.
#[test]
fn releases_of_one_lock_in_one_call_grant_it_once() {
    let server = Server::start();
    let (lua, names) = (Lua::new(), Names::of("door"));
    let mut connection = connect(&server);
    let mut listener = connect(&server);
    let mut listener = listener.as_pubsub();
    for tokens in [["left", "held"], ["held", "left"], ["held", "held"]] {
        ask::<()>(
            &mut connection,
            &["SET", &names.lock, "held", "PX", "30000"],
        );
        for waits in ["a", "b"] {
            listener.subscribe(channel(waits)).unwrap();
            let claim = Claim {
                names: &names,
                token: waits,
                ttl: TTL,
            };
            assert_eq!(lua.wait(&mut connection, &claim, 0).unwrap()[0], 2);
        }
        let mut release = lua.release.prepare_invoke();
        for key in [&names.lock, &names.queue, &names.waiters] {
            release.key(key).key(key);
        }
        for token in tokens {
            release.arg(token);
        }
        let reply: String = release.invoke(&mut connection).unwrap();
        assert!(reply.contains('1'), "{reply}");
        let holder: String = ask(&mut connection, &["GET", &names.lock]);
        assert_eq!(holder, "a", "after the releases of {tokens:?}");
        let waiting: u32 = ask(&mut connection, &["ZCARD", &names.queue]);
        assert_eq!(waiting, 1, "after the releases of {tokens:?}");
        ask::<()>(&mut connection, &["FLUSHDB"]);
    }
}
