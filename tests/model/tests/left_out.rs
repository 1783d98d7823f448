//! Each rule of the protocol is left out once, and what comes of it is found.

use Violation::{FenceFell, Interrupted, NotTheHolder, Overtaken, TwoHolders, Undead};
use lock_model::search::{Trace, find, search};
use lock_model::world::{Faults, Setting, Violation};

/// Of the times.
const STALL: usize = 0;
const ORPHAN: usize = 1;
const UNAWARE: usize = 2;
const GHOST: usize = 3;
const KEPT: usize = 4;

fn first(setting: &Setting, violation: Violation) -> Option<Trace> {
    find(setting, |world| {
        world.violations(setting).any(|it| it == violation)
    })
}

/// Without the rule there is a violation, and with it there is none.
#[track_caller]
fn breaks(what: &str, rule: Setting, leave_out: impl Fn(&mut Setting), violation: Violation) {
    let mut without = rule;
    leave_out(&mut without);
    let trace = first(&without, violation).expect(what);
    println!("{what}: {violation:?}\n{trace}");
    assert!(first(&rule, violation).is_none(), "{what}");
}

/// Without the rule something takes longer than with it.
#[track_caller]
fn takes_longer(what: &str, rule: Setting, leave_out: impl Fn(&mut Setting), time: usize) {
    let mut without = rule;
    leave_out(&mut without);
    let (most, longest) = &search(&rule).most[time];
    let trace = find(&without, |world| world.times.all()[time] > *most);
    let trace = trace.unwrap_or_else(|| panic!("{what}: no more than {most}\n{longest}"));
    println!("{what}: more than {most} ticks\n{trace}");
}

#[test]
fn deadlines() {
    breaks(
        "a pushed lease counts from when it was told",
        Setting::new(
            3,
            5,
            Faults {
                slow: 1,
                ..Faults::NONE
            },
        ),
        |it| it.conduct.anchored = false,
        TwoHolders,
    );
    let mut patient = Setting::new(
        2,
        8,
        Faults {
            slow: 1,
            ..Faults::NONE
        },
    );
    patient.conduct.patience = 4;
    breaks(
        "a lease counts from the answer",
        patient,
        |it| it.conduct.from_send = false,
        TwoHolders,
    );
    breaks(
        "no margin, and a slow clock",
        {
            let mut slow_clock = Setting::new(
                2,
                9,
                Faults {
                    drift: 1,
                    ..Faults::NONE
                },
            );
            slow_clock.rules.ttl = 5;
            slow_clock.rules.grant = 2;
            slow_clock.conduct.margin = 1;
            slow_clock
        },
        |it| it.conduct.margin = 0,
        NotTheHolder,
    );
}

#[test]
fn tenure() {
    let faults = Faults {
        slow: 2,
        renew: 1,
        ..Faults::NONE
    };
    let mut out_of_order = Setting::new(1, 7, faults);
    out_of_order.conduct.in_order = false;
    breaks(
        "an answer to wait prolongs a lease that is held",
        out_of_order,
        |it| it.conduct.heeds_last = false,
        Interrupted,
    );
    breaks(
        "a renewal counts after the deadline",
        out_of_order,
        |it| it.conduct.renews_in_time = false,
        Interrupted,
    );
}

#[test]
fn tokens() {
    let mut twice = Setting::new(
        2,
        7,
        Faults {
            slow: 1,
            ..Faults::NONE
        },
    );
    twice.bounds.holds = 2;
    twice.conduct.in_order = false;
    breaks(
        "one token for all attempts",
        twice,
        |it| it.conduct.fresh_tokens = false,
        TwoHolders,
    );
}

#[test]
fn asking_again() {
    takes_longer(
        "nobody asks again, and a message is lost",
        Setting::new(
            2,
            12,
            Faults {
                lost: 1,
                ..Faults::NONE
            },
        ),
        |it| it.conduct.asks_again = false,
        STALL,
    );
    takes_longer(
        "nobody asks again, and the holder crashes",
        Setting::new(
            2,
            12,
            Faults {
                crash: 1,
                ..Faults::NONE
            },
        ),
        |it| it.conduct.asks_again = false,
        STALL,
    );
    takes_longer(
        "the holder is not told that it is",
        Setting::new(
            2,
            10,
            Faults {
                lost: 1,
                ..Faults::NONE
            },
        ),
        |it| it.rules.adopt = false,
        UNAWARE,
    );
    takes_longer(
        "wait of the holder prolongs its lease",
        {
            let faults = Faults {
                lost: 1,
                slow: 1,
                pause: 1,
                ..Faults::NONE
            };
            let mut long = Setting::new(1, 12, faults);
            long.rules.ttl = 5;
            long.conduct.renews_grants = false;
            long
        },
        |it| it.rules.refresh = true,
        KEPT,
    );
}

#[test]
fn giving_up() {
    takes_longer(
        "cancel only leaves the queue",
        Setting::new(
            2,
            8,
            Faults {
                cancel: 1,
                ..Faults::NONE
            },
        ),
        |it| it.rules.give_back = false,
        ORPHAN,
    );
    let faults = Faults {
        cancel: 1,
        lost: 1,
        ..Faults::NONE
    };
    takes_longer(
        "cancel is said once, and grants are kept",
        Setting::new(2, 12, faults),
        |it| {
            it.conduct.persists = false;
            it.conduct.returns_grants = false;
        },
        GHOST,
    );
    takes_longer(
        "cancel is said once",
        Setting::new(2, 12, faults),
        |it| it.conduct.persists = false,
        GHOST,
    );
}

#[test]
fn late_requests() {
    let faults = Faults {
        cancel: 1,
        slow: 1,
        ..Faults::NONE
    };
    let mut asks_once = Setting::new(2, 10, faults);
    asks_once.conduct.in_order = false;
    asks_once.conduct.asks_again = false;
    asks_once.conduct.patience = 1;
    takes_longer(
        "no tombstone",
        asks_once,
        |it| it.conduct.buries = false,
        ORPHAN,
    );
    takes_longer(
        "no tombstone, and grants are kept",
        asks_once,
        |it| {
            it.conduct.buries = false;
            it.conduct.returns_grants = false;
        },
        GHOST,
    );
    let mut tries_first = Setting::new(2, 9, faults);
    tries_first.conduct.tries_first = true;
    takes_longer(
        "a late acquire follows its release",
        tries_first,
        |it| it.conduct.in_order = false,
        ORPHAN,
    );
    let faults = Faults {
        crash: 1,
        slow: 1,
        ..Faults::NONE
    };
    let mut short_lived = Setting::new(2, 7, faults);
    short_lived.rules.alive = 2;
    breaks(
        "a wait is never void",
        short_lived,
        |it| it.conduct.voids = false,
        Undead,
    );
}

#[test]
fn the_dead() {
    let mut unnoticed = Setting::new(
        3,
        9,
        Faults {
            crash: 1,
            ..Faults::NONE
        },
    );
    unnoticed.bounds.waiters_crash = true;
    unnoticed.bounds.half_open = true;
    unnoticed.rules.ttl = 5;
    takes_longer(
        "a grant lasts for a whole ttl",
        unnoticed,
        |it| it.rules.grant = it.rules.ttl,
        STALL,
    );
    let mut noticed = unnoticed;
    noticed.bounds.half_open = false;
    takes_longer(
        "who can't hear is granted the lock",
        noticed,
        |it| it.rules.skip_deaf = false,
        STALL,
    );
    // What costs time is a waiter that has died a moment ago.
    let mut without = unnoticed;
    without.rules.skip_silent = false;
    let most = |setting| search(setting).most[STALL].0;
    assert_eq!(most(&unnoticed), most(&without));
}

#[test]
fn vacant_locks() {
    takes_longer(
        "a vacant lock is left so, until the next asks in its time",
        Setting::new(
            2,
            12,
            Faults {
                crash: 1,
                lost: 1,
                cancel: 1,
                ..Faults::NONE
            },
        ),
        |it| {
            it.rules.pump = false;
            it.conduct.asks_at_the_end = false;
        },
        STALL,
    );
    breaks(
        "a vacant lock goes to whoever asks",
        Setting::new(
            3,
            8,
            Faults {
                crash: 1,
                ..Faults::NONE
            },
        ),
        |it| it.rules.first_come = false,
        Overtaken,
    );
}

/// Where a replica takes over that doesn't know everything, nothing else is to be had but fencing tokens.
#[test]
fn failovers() {
    let faults = Faults {
        failover: 1,
        fence: 2,
        ..Faults::NONE
    };
    let lagging = Setting::new(2, 4, faults);
    assert!(first(&lagging, TwoHolders).is_some());
    breaks(
        "fencing tokens are counted, and the count is lost",
        lagging,
        |it| it.rules.fence_by_clock = false,
        FenceFell,
    );
    breaks(
        "a failover in no time",
        lagging,
        |it| it.bounds.failover = 0,
        FenceFell,
    );
    breaks(
        "the replica's clock is behind",
        lagging,
        |it| it.bounds.ahead = -2,
        FenceFell,
    );
    let mut late = Setting::new(2, 6, faults);
    late.bounds.failover = late.rules.ttl;
    breaks(
        "a failover sooner than a ttl after the last write",
        late,
        |it| it.bounds.failover = 1,
        TwoHolders,
    );
    let mut synchronous = lagging;
    synchronous.bounds.synchronous = true;
    breaks(
        "the replica's clock is ahead",
        synchronous,
        |it| it.bounds.ahead = 2,
        TwoHolders,
    );
}
