//! A correct history is accepted, and is rejected when any part of it is changed.

use super::generated::{MS, TTL, World, history};
use crate::checker::{Case, Rule, check};
use crate::history::History;
use crate::journal::{Event, EventKind, Outcome};
use lock_test_support::rng::Rng;

const TIMES: u64 = 10;

#[test]
fn correct_history_is_accepted() {
    for seed in 1..=TIMES {
        for (stops, forgets) in [(false, false), (true, false), (false, true), (true, true)] {
            let world = World {
                stops,
                forgets,
                ..World::default()
            };
            let verdict = check(&history(world, seed));
            assert!(
                verdict.violations.is_empty(),
                "seed {seed}: {} violations, {}",
                verdict.violations.len(),
                verdict.violations[0]
            );
            assert!(verdict.holds > 100 && verdict.hand_offs > 100);
            assert_eq!(verdict.lost_updates, 0);
        }
    }
}

#[test]
fn excused_violations_are_counted() {
    let sum = |world: World, of: fn(&crate::checker::Verdict) -> usize| -> usize {
        let seeds = 1..=TIMES;
        seeds.map(|seed| of(&check(&history(world, seed)))).sum()
    };
    let (stops, forgets) = (
        World {
            stops: true,
            ..World::default()
        },
        World {
            forgets: true,
            ..World::default()
        },
    );
    assert!(sum(forgets, |verdict| verdict.double_holds) > 10);
    assert!(sum(stops, |verdict| verdict.late_steps) > 10);
    assert!(sum(stops, |verdict| verdict.refused) > 10);
    assert_eq!(sum(stops, |verdict| verdict.double_holds), 0);
}

/// Asserts that `change` makes each of several correct histories break `rule`.
fn always_found(rule: Rule, change: impl Fn(&mut History, &mut Rng)) {
    let world = World {
        stops: true,
        ..World::default()
    };
    for seed in 1..=TIMES {
        let mut history = history(world, seed);
        change(&mut history, &mut Rng::with(seed * 7919));
        assert!(check(&history).breaks(rule), "seed {seed}");
    }
}

/// Returns a random event that satisfies `is_one`.
fn any<'h>(
    history: &'h mut History,
    rng: &mut Rng,
    is_one: impl Fn(&Event) -> bool,
) -> &'h mut Event {
    let fitting = history.events.iter_mut().filter(|event| is_one(event));
    let mut fitting: Vec<_> = fitting.collect();
    let number = rng.below(fitting.len() as u64) as usize;
    fitting.swap_remove(number)
}

/// Returns a random call that satisfies `is_one`.
fn any_call(
    history: &History,
    rng: &mut Rng,
    is_one: impl Fn(&crate::checker::Call) -> bool,
) -> crate::checker::Call {
    let mut calls = Case::new(history).calls;
    calls.retain(|call| is_one(call));
    calls.swap_remove(rng.below(calls.len() as u64) as usize)
}

#[test]
fn overlapping_hold_is_detected() {
    always_found(Rule::Exclusion, |history, rng| {
        let call = any_call(history, rng, |call| call.looks.len() > 1);
        let (from, until) = call.held().unwrap();
        let within = from + 1 + rng.below(until - from - 1);
        // Move the start of another worker's hold into this one.
        let other = any_call(history, rng, |other| {
            other.worker != call.worker && other.key == call.key && other.began().is_some()
        });
        for event in &mut history.events {
            if (event.worker, event.call) == (other.worker, other.number)
                && let EventKind::Acquired { .. } = event.what
            {
                event.at = within;
                event.what = EventKind::Acquired { left: TTL };
            }
        }
        // Its later events would break other rules.
        history.events.retain(|event| {
            (event.worker, event.call) != (other.worker, other.number)
                || matches!(
                    event.what,
                    EventKind::Called { .. } | EventKind::Acquired { .. }
                )
        });
        history.events.push(Event {
            at: within + MS,
            boot: within + MS,
            worker: other.worker,
            call: other.number,
            what: EventKind::Ended {
                outcome: Outcome::Done,
            },
        });
        for event in &mut history.events {
            if (event.worker, event.call) == (other.worker, other.number)
                && let EventKind::Called { .. } = event.what
            {
                event.at = event.at.min(within);
            }
        }
    });
}

#[test]
fn step_after_the_lease_is_detected() {
    always_found(Rule::Deadline, |history, rng| {
        let call = any_call(history, rng, |call| {
            call.is_cancelled() && call.looks.len() > 2
        });
        let look = call.looks[1 + rng.below(call.looks.len() as u64 - 2) as usize];
        for event in &mut history.events {
            if (event.worker, event.at) == (call.worker, look.at)
                && let EventKind::Step { left } = &mut event.what
            {
                *left = 0;
            }
        }
    });
}

#[test]
fn decreasing_token_is_detected() {
    always_found(Rule::Tokens, |history, rng| {
        let fenced = |call: &crate::checker::Call| call.tokens.len() == 2;
        let call = any_call(history, rng, |call| {
            fenced(call) && call.tokens[0].number > 9
        });
        for event in &mut history.events {
            if (event.worker, event.call) == (call.worker, call.number)
                && let EventKind::Token { token, .. } = &mut event.what
            {
                *token = 0;
            }
        }
    });
}

#[test]
fn changed_token_within_a_hold_is_detected() {
    always_found(Rule::Tokens, |history, rng| {
        let call = any_call(history, rng, |call| call.tokens.len() == 2);
        let mut tokens = history.events.iter_mut().filter(|event| {
            (event.worker, event.call) == (call.worker, call.number)
                && matches!(event.what, EventKind::Token { .. })
        });
        if let EventKind::Token { token, .. } = &mut tokens.next_back().unwrap().what {
            *token += 1;
        }
    });
}

#[test]
fn accepted_stale_write_is_detected() {
    always_found(Rule::Writes, |history, rng| {
        let refused = history.writes.iter_mut().filter(|write| !write.accepted);
        let mut refused: Vec<_> = refused.collect();
        match refused.len() as u64 {
            // No write was refused in this history, so an update is lost instead.
            0 => {
                let writes = history.writes.len() as u64;
                history.writes[rng.below(writes) as usize].found += 1;
            }
            some => refused[rng.below(some) as usize].accepted = true,
        }
    });
}

#[test]
fn leftover_is_detected() {
    always_found(Rule::Leaks, |history, rng| {
        let over = any(history, rng, |event| {
            matches!(event.what, EventKind::Exited { .. })
        });
        over.what = EventKind::Exited {
            threads: rng.below(2) as usize,
            tasks: 1,
        };
    });
}

#[test]
fn missing_end_is_detected() {
    always_found(Rule::Progress, |history, rng| {
        let ends = |event: &Event| {
            matches!(
                event.what,
                EventKind::Ended { .. } | EventKind::Exited { .. }
            )
        };
        let end = any(history, rng, ends).clone();
        history.events.retain(|event| *event != end);
    });
}

#[test]
fn wrong_result_is_detected() {
    always_found(Rule::Progress, |history, rng| {
        let ends = |event: &Event| matches!(event.what, EventKind::Ended { .. });
        let outcome = match rng.one_in(2) {
            true => Outcome::Wrong("nonsense".into()),
            false => Outcome::Panicked,
        };
        any(history, rng, ends).what = EventKind::Ended { outcome };
    });
}

#[test]
fn excessive_wait_is_detected() {
    always_found(Rule::Waits, |history, rng| {
        let call = any_call(history, rng, |call| call.outcome() == Some(&Outcome::Busy));
        for event in &mut history.events {
            if (event.worker, event.call) == (call.worker, call.number)
                && let EventKind::Called { .. } = event.what
            {
                event.at -= call.wait + 1400 * MS;
            }
        }
        // A stop would excuse the wait.
        history.faults.clear();
        history
            .events
            .retain(|event| !matches!(event.what, EventKind::Stalled { .. }));
    });
}

#[test]
fn lock_without_a_holder_is_detected() {
    always_found(Rule::Stall, |history, rng| {
        let key = rng.below(2) as u32;
        let end = history.events.iter().map(|event| event.at).max().unwrap();
        let after = end + 25_000 * MS;
        let called = EventKind::Called {
            key,
            others: Vec::new(),
            kind: crate::journal::CallKind::Waits,
            lazy: false,
            ttl: TTL,
            wait: 60_000 * MS,
        };
        let ends = EventKind::Ended {
            outcome: Outcome::Done,
        };
        let begins = EventKind::Acquired { left: TTL };
        for (at, what) in [(end, called), (after, begins), (after + MS, ends)] {
            history.events.push(Event {
                at,
                boot: at,
                worker: 1,
                call: 1_000_000,
                what,
            });
        }
    });
}

#[test]
fn loss_without_a_fault_is_detected() {
    always_found(Rule::Loss, |history, rng| {
        let calm = |call: &crate::checker::Call| call.outcome() == Some(&Outcome::Done);
        let call = any_call(history, rng, |call| {
            calm(call) && call.kind != crate::journal::CallKind::Unrenewed
        });
        // Remove stops that are near enough to be the cause.
        let far =
            |from: u64, until: u64| until + 2000 * MS < call.called || from > call.over().unwrap();
        history.faults.retain(|fault| far(fault.from, fault.until));
        for event in &mut history.events {
            if (event.worker, event.call) == (call.worker, call.number)
                && let EventKind::Ended { outcome } = &mut event.what
            {
                *outcome = Outcome::Lost;
            }
        }
        history.events.retain(|event| match event.what {
            EventKind::Stalled { for_ } => far(event.at - for_, event.at),
            _ => true,
        });
    });
}

#[test]
fn reversed_order_is_detected() {
    for seed in 1..=TIMES {
        let world = World {
            last_first: true,
            ..World::default()
        };
        let verdict = check(&history(world, seed));
        assert!(verdict.breaks(Rule::Order), "seed {seed}");
        let world = World::default();
        assert!(check(&history(world, seed)).in_line > 100);
    }
}
