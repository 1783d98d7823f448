//! The guarantees of the scripts, step by step.

use redis::Connection;

use super::lua::{Claim, Lua, Names, ask, connect, tombstone};
use super::table::Answer::{Gets, Has, Stands, Void};
use super::table::Step::*;
use super::table::{TTL, Table, play};
use crate::support::server::Server;

#[test]
fn repeated_wait_by_holder_reports_held_and_keeps_lease() {
    play(&[
        Waits('a', Gets),
        Lease(TTL - 2000, TTL),
        LeaseIsCutTo(5000),
        Waits('a', Has),
        Lease(1, 5000),
        Quiet,
    ]);
}

#[test]
fn wait_after_acquire_reports_held() {
    play(&[Takes('a', true), Waits('a', Has), Waits('b', Stands(0, 1))]);
}

#[test]
fn repeated_wait_keeps_one_queue_entry() {
    play(&[
        Takes('d', true),
        Waits('a', Stands(0, 1)),
        Waits('b', Stands(1, 2)),
        Waits('a', Stands(0, 2)),
        Waits('b', Stands(1, 2)),
        Waits('a', Stands(0, 2)),
        Queue("ab"),
    ]);
}

#[test]
fn grants_follow_arrival_order() {
    play(&[
        Takes('d', true),
        Waits('c', Stands(0, 1)),
        Waits('a', Stands(1, 2)),
        Waits('b', Stands(2, 3)),
        ToldOfOthers('c'),
        Waits('c', Stands(0, 3)),
        Releases('d', true),
        Told('c', 2000),
        Holder('c'),
        Queue("ab"),
        Waits('d', Stands(2, 3)),
        Releases('c', true),
        Told('a', 2000),
        Releases('a', true),
        Told('b', 2000),
        Releases('b', true),
        Told('d', 2000),
        Holder('d'),
        Queue(""),
        Releases('d', true),
        Free,
        Quiet,
    ]);
}

#[test]
fn cancel_keeps_order_of_remaining_waiters() {
    play(&[
        Takes('d', true),
        Waits('a', Stands(0, 1)),
        Waits('b', Stands(1, 2)),
        Cancels('b', false),
        Waits('c', Stands(1, 2)),
        Cancels('a', false),
        Waits('a', Stands(1, 2)),
        Queue("ca"),
        Releases('d', true),
        Holder('c'),
    ]);
}

#[test]
fn granted_lock_cannot_be_acquired() {
    play(&[
        Takes('d', true),
        Waits('a', Stands(0, 1)),
        Releases('d', true),
        Takes('b', false),
        Releases('d', false),
        Releases('b', false),
        Holder('a'),
    ]);
}

#[test]
fn free_lock_is_reserved_for_first_waiter() {
    play(&[
        Takes('d', true),
        Waits('a', Stands(0, 1)),
        Waits('b', Stands(1, 2)),
        ToldOfOthers('a'),
        Expires,
        Waits('b', Stands(1, 2)),
        ToldFree('a'),
        Reserved,
        Waits('b', Stands(1, 2)),
        Quiet,
        Waits('a', Gets),
        Holder('a'),
        Queue("b"),
        Expires,
        Waits('c', Stands(1, 2)),
        ToldFree('b'),
        ToldOfOthers('b'),
        Waits('b', Gets),
        Expires,
        Waits('c', Gets),
        Lease(TTL - 2000, TTL),
        Quiet,
    ]);
}

#[test]
fn woken_waiters_are_not_overtaken() {
    play(&[
        Takes('d', true),
        Waits('a', Stands(0, 1)),
        Expires,
        Waits('b', Stands(1, 2)),
        ToldFree('a'),
        ToldOfOthers('a'),
        Takes('d', false),
        Waits('c', Stands(2, 3)),
        Cancels('c', false),
        Releases('d', false),
        Reserved,
        Waits('a', Gets),
        Releases('a', true),
        Told('b', 2000),
    ]);
}

/// All silent waiters are woken together, not one after the other.
#[test]
fn woken_waiter_that_does_not_poll_is_removed() {
    play(&[
        Takes('d', true),
        Waits('a', Stands(0, 1)),
        Waits('b', Stands(1, 2)),
        ToldOfOthers('a'),
        Waits('c', Stands(2, 3)),
        Expires,
        Waits('d', Stands(3, 4)),
        ToldFree('a'),
        ToldFree('b'),
        ToldFree('c'),
        Waits('c', Stands(2, 4)),
        Queue("abcd"),
        ChanceIsOver,
        Waits('d', Stands(1, 2)),
        ToldFree('c'),
        Queue("cd"),
        Waits('c', Gets),
        Releases('c', true),
        Told('d', 2000),
        Quiet,
    ]);
}

#[test]
fn unresponsive_woken_waiter_is_not_granted_lock() {
    play(&[
        Takes('d', true),
        Waits('a', Stands(0, 1)),
        Waits('b', Stands(1, 2)),
        ToldOfOthers('a'),
        Expires,
        Waits('c', Stands(2, 3)),
        ToldFree('a'),
        ToldFree('b'),
        Waits('a', Gets),
        ChanceIsOverBut('a'),
        Releases('a', true),
        Told('c', 2000),
        Queue(""),
    ]);
}

#[test]
fn canceled_woken_waiter_makes_room_for_next() {
    play(&[
        Takes('d', true),
        Waits('a', Stands(0, 1)),
        Waits('b', Stands(1, 2)),
        ToldOfOthers('a'),
        Expires,
        Waits('b', Stands(1, 2)),
        ToldFree('a'),
        Cancels('a', false),
        ToldFirst('b'),
        Reserved,
        Waits('b', Gets),
    ]);
}

#[test]
fn first_waiter_acquires_free_lock() {
    play(&[
        Takes('d', true),
        Waits('a', Stands(0, 1)),
        Waits('b', Stands(1, 2)),
        Expires,
        Waits('a', Gets),
        Queue("b"),
    ]);
}

#[test]
fn late_release_grants_free_lock_to_first_waiter() {
    play(&[
        Takes('d', true),
        Waits('a', Stands(0, 1)),
        Expires,
        Releases('d', false),
        Told('a', 2000),
        Holder('a'),
    ]);
}

#[test]
fn cancel_grants_free_lock_to_next_waiter() {
    play(&[
        Takes('d', true),
        Waits('a', Stands(0, 1)),
        Waits('b', Stands(1, 2)),
        ToldOfOthers('a'),
        Expires,
        Cancels('a', false),
        Told('b', 2000),
        Holder('b'),
        Quiet,
    ]);
}

#[test]
fn cancel_releases_granted_lock() {
    play(&[
        Takes('d', true),
        Waits('a', Stands(0, 1)),
        Waits('b', Stands(1, 2)),
        Releases('d', true),
        Holder('a'),
        Cancels('a', true),
        Told('b', 2000),
        Cancels('a', false),
        Holder('b'),
    ]);
}

#[test]
fn cancel_releases_acquired_lock() {
    play(&[Takes('a', true), Cancels('a', true), Free]);
}

#[test]
fn late_wait_after_cancel_is_void() {
    play(&[
        Takes('d', true),
        Waits('a', Stands(0, 1)),
        CancelsUnanswered('a', false),
        Waits('a', Void),
        Queue(""),
        Releases('d', true),
        Waits('a', Void),
        Free,
        Forgets('a'),
        Waits('a', Gets),
    ]);
}

#[test]
fn wait_overtaken_by_cancel_is_void() {
    play(&[
        CancelsUnanswered('a', false),
        Waits('a', Void),
        Free,
        Queue(""),
        Waits('b', Gets),
        Forgets('a'),
    ]);
}

#[test]
fn expired_wait_is_void() {
    play(&[
        WaitsVoidAfter('a', -1, Void),
        Free,
        Takes('d', true),
        WaitsVoidAfter('a', -1, Void),
        Queue(""),
        WaitsVoidAfter('a', 15_000, Stands(0, 1)),
        WaitsVoidAfter('a', -1, Void),
        Queue("a"),
    ]);
}

#[test]
fn silent_waiter_is_skipped() {
    play(&[
        Takes('d', true),
        Waits('a', Stands(0, 1)),
        Waits('b', Stands(1, 2)),
        ToldOfOthers('a'),
        Waits('c', Stands(2, 3)),
        FallsSilent('a'),
        FallsSilent('b'),
        Releases('d', true),
        Told('c', 2000),
        Queue(""),
        Quiet,
    ]);
}

#[test]
fn silent_waiter_that_polls_counts_as_alive() {
    play(&[
        Takes('d', true),
        Waits('a', Stands(0, 1)),
        Waits('b', Stands(1, 2)),
        ToldOfOthers('a'),
        FallsSilent('a'),
        Waits('a', Stands(0, 2)),
        Releases('d', true),
        Told('a', 2000),
    ]);
}

#[test]
fn disconnected_waiter_is_skipped() {
    play(&[
        Takes('d', true),
        Waits('a', Stands(0, 1)),
        Waits('b', Stands(1, 2)),
        Waits('c', Stands(2, 3)),
        Disconnects('a'),
        Disconnects('b'),
        Releases('d', true),
        Told('c', 2000),
        Holder('c'),
        Queue(""),
    ]);
}

#[test]
fn lock_is_free_when_all_waiters_are_gone() {
    for silent in [true, false] {
        let gone = |who| {
            if silent {
                FallsSilent(who)
            } else {
                Disconnects(who)
            }
        };
        play(&[
            Takes('d', true),
            Waits('a', Stands(0, 1)),
            Waits('b', Stands(1, 2)),
            gone('a'),
            gone('b'),
            Releases('d', true),
            Free,
            Queue(""),
            Takes('c', true),
        ]);
    }
}

#[test]
fn free_lock_behind_dead_waiter_goes_to_new_caller() {
    play(&[
        Takes('d', true),
        Waits('a', Stands(0, 1)),
        Disconnects('a'),
        Expires,
        Waits('b', Gets),
        Lease(TTL - 2000, TTL),
        Queue(""),
    ]);
}

#[test]
fn free_lock_behind_dead_waiter_goes_to_next_waiter() {
    play(&[
        Takes('d', true),
        Waits('a', Stands(0, 1)),
        Waits('b', Stands(1, 2)),
        ToldOfOthers('a'),
        Disconnects('a'),
        Expires,
        Waits('b', Gets),
        Lease(TTL - 2000, TTL),
        Queue(""),
        Quiet,
    ]);
}

#[test]
fn grant_lasts_two_seconds_or_shorter_ttl() {
    play(&[
        Takes('d', true),
        WaitsFor('a', 500, Stands(0, 1)),
        WaitsFor('b', 1_000_000, Stands(1, 2)),
        WaitsFor('c', 2000, Stands(2, 3)),
        ToldOfOthers('a'),
        Releases('d', true),
        Told('a', 500),
        Lease(1, 500),
        Releases('a', true),
        Told('b', 2000),
        Lease(1, 2000),
        Releases('b', true),
        Told('c', 2000),
    ]);
}

#[test]
fn repeated_wait_updates_ttl() {
    play(&[
        Takes('d', true),
        WaitsFor('a', 60_000, Stands(0, 1)),
        WaitsFor('a', 300, Stands(0, 1)),
        Releases('d', true),
        Told('a', 300),
    ]);
}

#[test]
fn first_waiter_is_notified_of_second_waiter() {
    play(&[
        Takes('d', true),
        Waits('a', Stands(0, 1)),
        Quiet,
        Waits('b', Stands(1, 2)),
        ToldOfOthers('a'),
        Waits('b', Stands(1, 2)),
        Waits('c', Stands(2, 3)),
        Quiet,
        Cancels('c', false),
        Cancels('b', false),
        Waits('c', Stands(1, 2)),
        ToldOfOthers('a'),
    ]);
}

/// A waiter that becomes first must know it, because the first waiter polls more often.
#[test]
fn waiter_that_becomes_first_is_notified() {
    play(&[
        Takes('d', true),
        Waits('a', Stands(0, 1)),
        Waits('b', Stands(1, 2)),
        Waits('c', Stands(2, 3)),
        ToldOfOthers('a'),
        Releases('d', true),
        Told('a', 2000),
        ToldFirst('b'),
        Cancels('b', false),
        ToldFirst('c'),
        Waits('b', Stands(1, 2)),
        ToldOfOthers('c'),
        CancelsUnanswered('c', false),
        ToldFirst('b'),
        Waits('d', Stands(1, 2)),
        ToldOfOthers('b'),
        Cancels('a', true),
        Told('b', 2000),
        ToldFirst('d'),
        Forgets('c'),
    ]);
}

#[test]
fn disconnected_next_waiter_is_skipped_when_first_leaves() {
    play(&[
        Takes('d', true),
        Waits('a', Stands(0, 1)),
        Waits('b', Stands(1, 2)),
        Waits('c', Stands(2, 3)),
        Disconnects('b'),
        Cancels('a', false),
        ToldFirst('c'),
        Queue("c"),
    ]);
}

#[test]
fn full_server_grants_locks_to_waiters() {
    play(&[
        Takes('d', true),
        Waits('a', Stands(0, 1)),
        Waits('b', Stands(1, 2)),
        Waits('c', Stands(2, 3)),
        ToldOfOthers('a'),
        MemoryIsFull,
        Releases('d', true),
        Told('a', 2000),
        Cancels('a', true),
        Told('b', 2000),
        Expires,
        Releases('b', false),
        Told('c', 2000),
        Waits('c', Has),
        Releases('c', true),
        Free,
        MemoryIsFree,
    ]);
}

#[test]
fn full_server_skips_dead_waiters() {
    play(&[
        Takes('d', true),
        Waits('a', Stands(0, 1)),
        Waits('b', Stands(1, 2)),
        Waits('c', Stands(2, 3)),
        Disconnects('a'),
        FallsSilent('b'),
        MemoryIsFull,
        Releases('d', true),
        Told('c', 2000),
        CancelsUnanswered('c', true),
        Waits('c', Void),
        MemoryIsFree,
        Forgets('c'),
    ]);
}

#[test]
fn full_server_reserves_free_lock_for_first_waiter() {
    play(&[
        Takes('d', true),
        Waits('a', Stands(0, 1)),
        Waits('b', Stands(1, 2)),
        ToldOfOthers('a'),
        MemoryIsFull,
        Expires,
        Waits('b', Stands(1, 2)),
        ToldFree('a'),
        Reserved,
        Waits('a', Gets),
        MemoryIsFree,
    ]);
}

#[test]
fn queue_keys_expire() {
    let mut table = Table::new(Server::start(), "door");
    table.play(&[
        Takes('d', true),
        Waits('a', Stands(0, 1)),
        Waits('b', Stands(1, 2)),
        CancelsUnanswered('c', false),
    ]);
    let Names { queue, waiters, .. } = table.names.clone();
    for key in [queue, waiters, tombstone("c")] {
        let left: i64 = ask(&mut table.connection, &["PTTL", &key]);
        assert!((1..=50_000).contains(&left), "`{key}` expires in {left} ms");
    }
    table.play(&[Cancels('d', true), Forgets('c')]);
    table.leave();
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
    let mut server = Server::start();
    for key in ODD_KEYS {
        let mut table = Table::new(server, key);
        table.play(&[
            Takes('d', true),
            Waits('a', Stands(0, 1)),
            Waits('b', Stands(1, 2)),
            ToldOfOthers('a'),
            Releases('d', true),
            Told('a', 2000),
            Expires,
            Waits('c', Stands(1, 2)),
            ToldFree('b'),
            ToldOfOthers('b'),
            Waits('b', Gets),
            Cancels('c', false),
        ]);
        table.leave();
        server = table.server;
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
    assert_eq!(renew.invoke::<Vec<u8>>(&mut narrow).unwrap(), [1]);
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
    ask::<()>(&mut connection, &["SET", "lock:gate", "a", "PX", "500"]);
    renew.key("lock:door").key("lock:gate");
    renew.arg("a").arg(TTL).arg("a").arg(TTL);
    let renewed: Vec<u8> = renew.invoke(&mut connection).expect("a renewal");
    assert_eq!(renewed, [0, 1], "the other lock is renewed");
    ask::<()>(&mut connection, &["DEL", "lock:door", "lock:gate"]);
}
