//! The protocol with one rule removed at a time, and the resulting violations.

use crate::search::{Trace, find};
use crate::server::{Rules, UNLIMITED};
use crate::world::{Faults, Setting, Violation};
use Evidence::{Longer, Wrong};

pub struct Mutation {
    pub what: &'static str,
    /// With the rule, and without it.
    pub with: Setting,
    pub without: Setting,
    pub shows: Evidence,
}

/// The effect that occurs only without the rule.
#[derive(Clone, Copy, Debug)]
pub enum Evidence {
    Wrong(Violation),
    /// One of the times is longer than this, which is the most with the rule.
    Longer(usize, u8),
}

// The times.
const STALL: usize = 0;
const ORPHAN: usize = 1;
const UNAWARE: usize = 2;
const GHOST: usize = 3;
const KEPT: usize = 4;
const IDLE: usize = 5;

const NONE: Faults = Faults::NONE;
const SLOW: Faults = Faults { slow: 1, ..NONE };
const LOST: Faults = Faults { lost: 1, ..NONE };
const CRASH: Faults = Faults { crash: 1, ..NONE };
const CANCEL: Faults = Faults { cancel: 1, ..NONE };

impl Mutation {
    fn new(
        what: &'static str,
        with: Setting,
        shows: Evidence,
        leave_out: fn(&mut Setting),
    ) -> Self {
        let mut without = with;
        leave_out(&mut without);
        Mutation {
            what,
            with,
            without,
            shows,
        }
    }

    /// Returns a trace that leads to the effect.
    pub fn counter_example(&self) -> Option<Trace> {
        self.shows.first(&self.without)
    }

    /// Returns `true` if the removed rule is one of the server.
    pub fn is_of_the_server(&self) -> bool {
        let rules = |rules: Rules| format!("{rules:?}");
        rules(self.with.rules) != rules(self.without.rules)
    }
}

impl Evidence {
    pub fn first(self, setting: &Setting) -> Option<Trace> {
        find(setting, |world| match self {
            Wrong(violation) => world.violations(setting).any(|it| it == violation),
            Longer(time, than) => world.times.all()[time] > than,
        })
    }
}

fn with(setting: Setting, change: impl Fn(&mut Setting)) -> Setting {
    let mut setting = setting;
    change(&mut setting);
    setting
}

pub fn deadlines() -> Vec<Mutation> {
    let patient = with(Setting::new(2, 8, SLOW), |it| it.conduct.patience = 4);
    let drift = Faults { drift: 1, ..NONE };
    let slow_clock = with(Setting::new(2, 9, drift), |it| {
        (it.rules.ttl, it.rules.grant, it.conduct.margin) = (5, 2, 1);
    });
    vec![
        Mutation::new(
            "a pushed lease counts from its receipt",
            Setting::new(3, 5, SLOW),
            Wrong(Violation::TooManyHolders),
            |it| it.conduct.anchored = false,
        ),
        Mutation::new(
            "a lease counts from the answer",
            patient,
            Wrong(Violation::TooManyHolders),
            |it| it.conduct.from_send = false,
        ),
        Mutation::new(
            "no margin, and a slow clock",
            slow_clock,
            Wrong(Violation::NotTheHolder),
            |it| it.conduct.margin = 0,
        ),
    ]
}

pub fn tenure() -> Vec<Mutation> {
    let faults = Faults {
        slow: 2,
        renew: 1,
        ..NONE
    };
    let out_of_order = with(Setting::new(1, 7, faults), |it| it.conduct.in_order = false);
    let twice = with(Setting::new(2, 6, SLOW), |it| {
        it.bounds.holds = 2;
        it.conduct.in_order = false;
    });
    vec![
        Mutation::new(
            "an answer to wait prolongs a lease that is held",
            out_of_order,
            Wrong(Violation::Interrupted),
            |it| it.conduct.heeds_last = false,
        ),
        Mutation::new(
            "a renewal counts after the deadline",
            out_of_order,
            Wrong(Violation::Interrupted),
            |it| it.conduct.renews_in_time = false,
        ),
        Mutation::new(
            "one token for all attempts",
            twice,
            Wrong(Violation::TooManyHolders),
            |it| it.conduct.fresh_tokens = false,
        ),
    ]
}

pub fn asking_again() -> Vec<Mutation> {
    let faults = Faults {
        pause: 1,
        slow: 1,
        ..LOST
    };
    // Without renewals: a late one would prolong the lease, too.
    let paused = with(Setting::new(1, 12, faults), |it| {
        it.rules.ttl = 5;
        it.conduct.renews_grants = false;
    });
    vec![
        Mutation::new(
            "waiters do not poll, and a message is lost",
            Setting::new(2, 12, LOST),
            Longer(STALL, 2),
            |it| it.conduct.asks_again = false,
        ),
        Mutation::new(
            "waiters do not poll, and the holder crashes",
            Setting::new(2, 12, CRASH),
            Longer(STALL, 3),
            |it| it.conduct.asks_again = false,
        ),
        Mutation::new(
            "the holder is not notified that it is",
            Setting::new(2, 10, LOST),
            Longer(UNAWARE, 2),
            |it| it.rules.adopt = false,
        ),
        Mutation::new(
            "wait of the holder prolongs its lease",
            paused,
            Longer(KEPT, 5),
            |it| it.rules.refresh = true,
        ),
    ]
}

pub fn giving_up() -> Vec<Mutation> {
    let setting = Setting::new(2, 12, Faults { lost: 1, ..CANCEL });
    vec![
        Mutation::new(
            "cancel only leaves the queue",
            Setting::new(2, 8, CANCEL),
            Longer(ORPHAN, 0),
            |it| it.rules.give_back = false,
        ),
        Mutation::new(
            "cancel is said once, and grants are kept",
            setting,
            Longer(GHOST, 2),
            |it| (it.conduct.persists, it.conduct.returns_grants) = (false, false),
        ),
        Mutation::new("cancel is said once", setting, Longer(GHOST, 2), |it| {
            it.conduct.persists = false;
        }),
    ]
}

pub fn late_requests() -> Vec<Mutation> {
    let faults = Faults { slow: 1, ..CANCEL };
    let asks_once = with(Setting::new(2, 10, faults), |it| {
        it.conduct.in_order = false;
        it.conduct.asks_again = false;
        it.conduct.patience = 1;
    });
    let tries_first = with(Setting::new(2, 9, faults), |it| {
        it.conduct.tries_first = true
    });
    let crashes = Setting::new(2, 7, Faults { slow: 1, ..CRASH });
    let short_lived = with(crashes, |it| (it.rules.alive, it.rules.stay) = (2, 3));
    vec![
        Mutation::new("no tombstone", asks_once, Longer(ORPHAN, 1), |it| {
            it.conduct.buries = false;
        }),
        Mutation::new(
            "no tombstone, and grants are kept",
            asks_once,
            Longer(GHOST, 1),
            |it| (it.conduct.buries, it.conduct.returns_grants) = (false, false),
        ),
        Mutation::new(
            "a late acquire follows its release",
            tries_first,
            Longer(ORPHAN, 2),
            |it| it.conduct.in_order = false,
        ),
        Mutation::new(
            "a wait is never void",
            short_lived,
            Wrong(Violation::ResurrectedWaiter),
            |it| it.conduct.voids = false,
        ),
    ]
}

pub fn the_dead() -> Vec<Mutation> {
    let unnoticed = with(Setting::new(3, 9, CRASH), |it| {
        it.bounds.waiters_crash = true;
        it.bounds.half_open = true;
        it.rules.ttl = 5;
    });
    let noticed = with(unnoticed, |it| {
        it.bounds.half_open = false;
        it.rules.grant = 2;
    });
    let row = with(unnoticed, |it| {
        it.bounds.clients = 4;
        it.bounds.faults.crash = 2;
        it.rules.grant = 2;
    });
    vec![
        Mutation::new(
            "a grant lasts for a whole ttl",
            unnoticed,
            Longer(STALL, 2),
            |it| it.rules.grant = it.rules.ttl,
        ),
        Mutation::new(
            "a woken waiter that does not poll keeps its entry",
            unnoticed,
            Longer(STALL, 2),
            |it| it.rules.skip_silent = false,
        ),
        Mutation::new(
            "each of a row of dead ones is granted the lock",
            row,
            Longer(STALL, 3),
            |it| it.rules.wake = 0,
        ),
        Mutation::new(
            "a disconnected waiter is granted the lock",
            noticed,
            Longer(STALL, 1),
            |it| it.rules.skip_deaf = false,
        ),
    ]
}

pub fn vacant_locks() -> Vec<Mutation> {
    let asks_seldom = with(Setting::new(2, 9, SLOW), |it| {
        it.conduct.asks_at_the_end = false;
    });
    let tries_first = with(Setting::new(3, 7, CRASH), |it| {
        it.conduct.tries_first = true;
    });
    vec![
        Mutation::new(
            "waiters do not poll when the holder's lease ends",
            Setting::new(2, 12, CRASH),
            Longer(STALL, 3),
            |it| it.conduct.asks_at_the_end = false,
        ),
        Mutation::new(
            "release leaves a vacant lock so",
            asks_seldom,
            Longer(STALL, 2),
            |it| it.rules.pump = false,
        ),
        Mutation::new(
            "a vacant lock goes to any claim that asks",
            Setting::new(3, 8, CRASH),
            Wrong(Violation::Overtaken),
            |it| it.rules.first_come = false,
        ),
        Mutation::new(
            "newcomers take the lock at the end of a lease",
            tries_first,
            Wrong(Violation::Overtaken),
            |it| it.rules.outlasts = false,
        ),
    ]
}

/// Returns the rules of locks that several clients share.
pub fn sharing() -> Vec<Mutation> {
    const READ: u8 = UNLIMITED;
    let clients = |limits: &[u8], ticks, faults| {
        Setting::new(limits.len(), ticks, faults).with_limits(limits)
    };
    let tries_first = with(clients(&[READ, 1, READ], 6, NONE), |it| {
        it.conduct.tries_first = true;
    });
    let late_renewal = Faults { renew: 1, ..SLOW };
    let late_renewal = with(clients(&[READ, READ], 8, late_renewal), |it| {
        it.conduct.in_order = false;
    });
    let kept = with(
        clients(&[READ, READ], 9, Faults { renew: 2, ..CRASH }),
        |it| {
            it.conduct.renews_grants = false;
        },
    );
    let silent = Faults { renew: 2, ..CRASH };
    let silent = with(clients(&[READ, 1, READ], 7, silent), |it| {
        it.bounds.half_open = true;
        it.bounds.waiters_crash = true;
        (it.rules.alive, it.rules.stay) = (9, 12);
    });
    let downgrade = Faults {
        downgrade: 1,
        ..LOST
    };
    let downgrade = with(clients(&[1, 1], 9, downgrade), |it| {
        it.rules.limits[0][1..].fill(READ);
    });
    let expires = Faults { renew: 1, ..CRASH };
    vec![
        Mutation::new(
            "a repeated downgrade counts as a renewal",
            downgrade,
            Wrong(Violation::NotTheHolder),
            |it| it.rules.downgrades_once = false,
        ),
        Mutation::new(
            "a reader passes a writer in the queue",
            tries_first,
            Wrong(Violation::Overtaken),
            |it| it.rules.respects_queue = false,
        ),
        Mutation::new(
            "only the newcomer's limit counts",
            clients(&[2, 3, 3], 6, NONE),
            Wrong(Violation::TooManyHolders),
            |it| it.rules.lowest_limit = false,
        ),
        Mutation::new("all holders have one lease", kept, Longer(KEPT, 3), |it| {
            it.rules.own_leases = false
        }),
        Mutation::new(
            "the key expires with the lease acquired last",
            clients(&[READ, READ, 1], 6, NONE),
            Wrong(Violation::NotTheHolder),
            |it| it.rules.last_lease = false,
        ),
        Mutation::new(
            "an ended lease counts until the last one ends",
            clients(&[2, 2, 2], 7, expires),
            Longer(IDLE, 0),
            |it| it.rules.ends_each = false,
        ),
        Mutation::new(
            "a release grants nothing beside the other holders",
            clients(&[2, 2, 2], 6, NONE),
            Longer(IDLE, 0),
            |it| it.rules.grants_beside = false,
        ),
        Mutation::new(
            "a writer that gives up makes no room",
            // Otherwise the reader behind would ask soon, to see whether the writer is silent.
            with(clients(&[READ, 1, READ], 6, CANCEL), |it| {
                it.rules.silence = 3;
            }),
            Longer(IDLE, 1),
            |it| it.rules.cancel_grants = false,
        ),
        Mutation::new(
            "neighbors in the queue do not enter together",
            clients(&[1, READ, READ], 7, NONE),
            Longer(IDLE, 0),
            |it| it.rules.neighbors = false,
        ),
        Mutation::new(
            "a dead writer is not woken",
            silent,
            Longer(IDLE, 2),
            |it| it.rules.wakes_silent = false,
        ),
        Mutation::new(
            "a late renewal makes a token a holder",
            late_renewal,
            Longer(ORPHAN, 3),
            |it| it.rules.only_renews = false,
        ),
    ]
}

/// Returns all cases that need only one server.
pub fn all() -> Vec<Mutation> {
    let groups = [
        deadlines,
        tenure,
        asking_again,
        giving_up,
        late_requests,
        the_dead,
        vacant_locks,
        sharing,
    ];
    groups.iter().flat_map(|group| group()).collect()
}

/// Returns the cases in which a replica that may lack data takes over.
pub fn failovers() -> Vec<Mutation> {
    let faults = Faults {
        failover: 1,
        fence: 2,
        ..NONE
    };
    let lagging = Setting::new(2, 4, faults);
    let late = with(Setting::new(2, 6, faults), |it| {
        it.bounds.failover = it.rules.ttl
    });
    let synchronous = with(lagging, |it| it.bounds.synchronous = true);
    vec![
        Mutation::new(
            "fencing tokens are counted, and the count is lost",
            lagging,
            Wrong(Violation::FenceFell),
            |it| it.rules.fence_by_clock = false,
        ),
        Mutation::new(
            "a failover in no time",
            lagging,
            Wrong(Violation::FenceFell),
            |it| it.bounds.failover = 0,
        ),
        Mutation::new(
            "the replica's clock is behind",
            lagging,
            Wrong(Violation::FenceFell),
            |it| it.bounds.ahead = -2,
        ),
        Mutation::new(
            "a failover sooner than a ttl after the last write",
            late,
            Wrong(Violation::TooManyHolders),
            |it| it.bounds.failover = 1,
        ),
        Mutation::new(
            "the replica's clock is ahead",
            synchronous,
            Wrong(Violation::TooManyHolders),
            |it| it.bounds.ahead = 2,
        ),
    ]
}
