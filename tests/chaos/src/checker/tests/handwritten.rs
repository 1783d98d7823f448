//! Small hand-written histories: a time in milliseconds, the worker and call, and the event.

use crate::checker::{Rule, check};
use crate::fault::{Fault, Keys, Kind};
use crate::history::{History, Promises};
use crate::journal::{Answer, CallKind, Event, EventKind, Outcome};
use crate::resource::Write;
use crate::revocation::{self, Revocation};

pub const MS: u64 = 1_000_000;

fn number(words: &[&str], at: usize) -> u64 {
    words[at].parse().unwrap_or_else(|_| panic!("{words:?}"))
}

/// Parses a history. Unless it contains an `over` event, all workers are over at its end.
pub fn history(text: &str) -> History {
    let mut history = History {
        promises: Promises {
            order: true,
            fenced: true,
            ..Promises::default()
        },
        ..History::default()
    };
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = number(&words, 0) * MS;
        let (worker, call) = words[1].split_once('.').unwrap_or((words[1], "0"));
        let (worker, call) = (worker.parse().unwrap(), call.parse().unwrap());
        match read(&words[2..]) {
            Some(what) => history.events.push(Event {
                at,
                boot: at,
                worker,
                call,
                what,
            }),
            None => history.writes.push(Write {
                at,
                worker,
                call,
                key: 0,
                token: number(&words, 3),
                read: number(&words, 4),
                found: number(&words, 5),
                accepted: words[2] == "writes",
            }),
        }
    }
    let revoked = revocation::all(&history.events);
    let revoked = revoked.iter().filter_map(Revocation::fault);
    history.faults.extend(revoked);
    let is_over = |event: &Event| matches!(event.what, EventKind::Exited { .. });
    if !history.events.iter().any(is_over) {
        let last = history.events.iter().map(|event| event.at).max().unwrap();
        let mut workers: Vec<u32> = history.events.iter().map(|event| event.worker).collect();
        workers.sort_unstable();
        workers.dedup();
        let (threads, tasks) = (0, 0);
        history
            .events
            .extend(workers.into_iter().map(|worker| Event {
                at: last,
                boot: last,
                worker,
                call: 0,
                what: EventKind::Exited { threads, tasks },
            }));
    }
    history
}

fn read(words: &[&str]) -> Option<EventKind> {
    let left = || number(words, 1) * MS;
    let outcome = |outcome| Some(EventKind::Ended { outcome });
    match words[0] {
        "asks" | "keeps" | "tries" | "continues" | "unrenewed" | "guards" | "watches"
        | "blocks" | "reads" | "two" | "three" | "downgrades" | "transfers" | "leaves"
        | "alone" => {
            let (kind, wait) = match words[0] {
                "tries" => (CallKind::TriesOnce, 0),
                "continues" => (CallKind::Continues, 60_000),
                "unrenewed" => (CallKind::Unrenewed, 60_000),
                "guards" => (CallKind::Guard, 60_000),
                "watches" => (CallKind::Watches, 60_000),
                "blocks" => (CallKind::Blocks, 60_000),
                "reads" => (CallKind::Reads, 60_000),
                "two" => (CallKind::TwoPermits, 60_000),
                "three" => (CallKind::ThreePermits, 60_000),
                "downgrades" => (CallKind::Downgrades, 60_000),
                "transfers" => (CallKind::Transfers, 60_000),
                "alone" => (CallKind::WaitsAlone, 60_000),
                "leaves" => (CallKind::SetAside, number(words, 1)),
                _ if words.len() > 1 => (CallKind::Waits, number(words, 1)),
                _ => (CallKind::Waits, 60_000),
            };
            let keys = match words[0] {
                "asks" | "keeps" | "leaves" => 1,
                _ => words.len(),
            };
            let mut keys = (1..keys).map(|at| number(words, at) as u32);
            Some(EventKind::Called {
                key: keys.next().unwrap_or(0),
                others: keys.collect(),
                kind,
                lazy: words[0] == "keeps",
                ttl: 1000 * MS,
                wait: wait * MS,
            })
        }
        "begins" => Some(EventKind::Acquired { left: left() }),
        "steps" => Some(EventKind::Step { left: left() }),
        "downgraded" => Some(EventKind::Downgraded {
            requested: number(words, 1) * MS,
            left: number(words, 2) * MS,
        }),
        "token" => Some(EventKind::Token {
            requested: number(words, 1) * MS,
            token: number(words, 2),
        }),
        "aside" => Some(EventKind::SetAside),
        "polled" => Some(EventKind::TakenUp),
        "blocking" => Some(EventKind::Blocks),
        "blocked" => Some(EventKind::Blocked { for_: left() }),
        "shuts" => Some(EventKind::ShutsDown { grace: left() }),
        "shut" => Some(EventKind::ShutDown { took: left() }),
        "panics" => Some(EventKind::Panicked {
            text: "at some place".into(),
        }),
        "stalled" => Some(EventKind::Stalled { for_: left() }),
        "dropped" => Some(EventKind::RuntimeDropped),
        "over" => Some(EventKind::Exited {
            threads: number(words, 1) as usize,
            tasks: number(words, 2) as usize,
        }),
        "done" => outcome(Outcome::Done),
        "lost" => outcome(Outcome::Lost),
        "revoked" => outcome(Outcome::Revoked),
        "connects" => Some(EventKind::Connected {
            process: words[1].into(),
        }),
        "wants" | "takes" => Some(EventKind::Revokes {
            key: 0,
            token: words.get(1).map(|_| "its token".into()),
            process: words.get(1).map(|process| (*process).into()),
            exclusive: words.len() > 1,
            force: words[0] == "takes",
            grace: 0,
            seen: u64::MAX,
        }),
        "got" => Some(EventKind::Revoked {
            since: number(words, 1) * MS,
            answer: match words[2] {
                "stopped" => Answer::Stopped,
                "unconfirmed" => Answer::Unconfirmed,
                "not-stopped" => Answer::NotStopped,
                "nothing" => Answer::Failed("nothing".into()),
                _ => Answer::Taken,
            },
            number: words[2].parse().ok(),
        }),
        "ended" => outcome(Outcome::ShutDown),
        "busy" => outcome(Outcome::Busy),
        "unavailable" => outcome(Outcome::Unavailable),
        "wrong" => outcome(Outcome::Wrong("nonsense".into())),
        "panicked" => outcome(Outcome::Panicked),
        "writes" | "refused" => None,
        word => panic!("{word}?"),
    }
}

pub fn fault(kind: Kind, from: u64, until: u64) -> Fault {
    Fault {
        kind,
        target: "it".into(),
        from: from * MS,
        until: until * MS,
        workers: Vec::new(),
        forgotten: None,
        away: false,
        vain: false,
    }
}

pub fn forgets(from: u64, until: u64) -> Fault {
    Fault {
        forgotten: Some(Keys::One(0)),
        ..fault(Kind::KeyDeleted, from, until)
    }
}

pub fn hits(kind: Kind, worker: u32, from: u64, until: u64) -> Fault {
    Fault {
        workers: vec![worker],
        ..fault(kind, from, until)
    }
}

pub fn broken(history: &History) -> Vec<Rule> {
    let violations = check(history).violations;
    violations.iter().for_each(|found| println!("{found}"));
    let mut rules: Vec<_> = violations.iter().map(|found| found.rule).collect();
    rules.sort_unstable();
    rules.dedup();
    rules
}

pub fn breaks(text: &str) -> Vec<Rule> {
    broken(&history(text))
}

const IN_ORDER: &str = "
     0 1.1 asks
     1 1.1 begins 988
     2 2.1 asks
     3 1.1 token 2 7
     4 1.1 writes 7 0 0
     5 1.1 steps 984
     6 1.1 token 5 7
     7 1.1 done
     8 2.1 begins 988
     9 2.1 token 8 9
    10 2.1 writes 9 1 1
    11 2.1 done
    12 1.2 tries
    13 1.2 begins 988
    14 1.2 done
    15 2.2 asks 500
   515 2.2 busy";

#[test]
fn correct_history_is_accepted() {
    let history = history(IN_ORDER);
    assert_eq!(broken(&history), []);
    let verdict = check(&history);
    assert_eq!((verdict.calls, verdict.holds, verdict.hand_offs), (4, 3, 1));
    assert_eq!((verdict.tokens, verdict.writes), (2, 2));
}

const TWO_HOLD_IT: &str = "
     0 1.1 asks
     1 1.1 begins 988
     2 2.1 asks
     5 2.1 begins 988
     6 2.1 steps 987
     7 2.1 done
     8 1.1 steps 981
     9 1.1 done";

#[test]
fn overlapping_holds_are_a_violation() {
    assert_eq!(breaks(TWO_HOLD_IT), [Rule::Exclusion]);
}

#[test]
fn overlapping_holds_of_a_forgotten_lock_are_excused() {
    let mut history = history(TWO_HOLD_IT);
    history.faults = vec![forgets(3, 4)];
    assert_eq!(broken(&history), []);
    let verdict = check(&history);
    assert_eq!(verdict.double_holds, 1);
    assert_eq!(verdict.longest_double_hold, MS);
    // Lost only later, or another lock lost.
    history.faults = vec![forgets(6, 7)];
    assert_eq!(broken(&history), [Rule::Exclusion]);
    history.faults[0] = forgets(3, 4);
    history.faults[0].forgotten = Some(Keys::One(1));
    assert_eq!(broken(&history), [Rule::Exclusion]);
}

#[test]
fn overlapping_holds_beyond_the_ttl_are_a_violation() {
    let mut history = history(
        "
          0 1.1 asks
          1 1.1 begins 988
          2 2.1 asks
          5 2.1 begins 988
        900 1.1 steps 500
        910 2.1 steps 500
       1020 1.1 steps 500
       1021 2.1 steps 500
       1022 1.1 done
       1023 2.1 done",
    );
    history.faults = vec![forgets(3, 4)];
    assert!(broken(&history).contains(&Rule::Exclusion));
}

/// The holder was stopped before; its last proven lease counts as held to its end.
#[test]
fn hold_before_a_proven_lease_ends_is_a_violation() {
    let text = |begins| {
        format!(
            "
               0 1.1 asks
               1 1.1 begins 988
               2 2.1 asks
            1505 1   stalled 1500
        {begins} 2.1 begins 900
            1504 2.1 done
            1505 1.1 steps 0
            1506 1.1 lost"
        )
    };
    assert_eq!(breaks(&text(988)), [Rule::Exclusion]);
    assert_eq!(breaks(&text(990)), []);
}

/// The members of a quorum execute a release one by one: the lock can be acquired before the last of them
/// finds that the lease has ended meanwhile.
#[test]
fn loss_reported_by_a_release_does_not_prove_the_lease_to_its_end() {
    let text = |asks: &str| {
        format!(
            "
               0 1.1 {asks}
               1 1.1 begins 988
               2 2.1 asks
             905 1.1 steps 84
             910 2.1 begins 988
             911 2.1 done
             990 1.1 lost"
        )
    };
    assert!(breaks(&text("asks")).contains(&Rule::Exclusion));
    for by_hand in ["guards", "watches"] {
        assert!(
            !breaks(&text(by_hand)).contains(&Rule::Exclusion),
            "{by_hand}"
        );
    }
}

#[test]
fn second_step_without_a_lease_is_a_violation() {
    let text = |asks: &str| {
        format!(
            "
               0 1.1 {asks}
               1 1.1 begins 988
            1505 1.1 steps 0
            1506 1.1 steps 0
            1507 1   stalled 1500
            1507 1.1 lost"
        )
    };
    assert_eq!(breaks(&text("asks")), [Rule::Deadline]);
    assert_eq!(breaks(&text("continues")), []);
    assert_eq!(breaks(&text("guards")), []);
}

#[test]
fn body_that_begins_without_a_lease_is_a_violation() {
    let text = "
        0 1.1 asks
        9 1.1 begins 0
        9 1.1 done
        9 2.1 asks
        9 2.1 begins 9
        9 2.1 done";
    assert_eq!(breaks(text), [Rule::Deadline]);
    // Its process was stopped just before.
    let stalled = format!("{text}\n12 1 stalled 4");
    assert_eq!(breaks(&stalled), []);
}

fn tokens(first: &str, again: &str, second: &str) -> Vec<Rule> {
    breaks(&format!(
        "
         0 1.1 asks
         1 1.1 begins 988
         3 1.1 token 2 {first}
         6 1.1 token 5 {again}
         7 1.1 done
         8 2.1 asks
         8 2.1 begins 988
         9 2.1 token 8 {second}
        11 2.1 done"
    ))
}

/// A machine that slept knows the server's clock from its own.
#[test]
fn token_after_a_deletion_may_be_less_if_a_machine_slept() {
    let mut history = history(
        "
         0 1.1 asks
         1 1.1 begins 988
         3 1.1 token 2 7
         4 1.1 done
         8 2.1 asks
         8 2.1 begins 988
         9 2.1 token 8 6
        11 2.1 done",
    );
    let (sleeps, deletion) = (fault(Kind::ClockStepped, 0, 1), forgets(5, 6));
    for faults in [vec![sleeps.clone()], vec![deletion.clone()]] {
        history.faults = faults;
        assert_eq!(broken(&history), [Rule::Tokens]);
    }
    history.faults = vec![sleeps, deletion];
    assert_eq!(broken(&history), []);
}

#[test]
fn tokens_that_do_not_increase_are_a_violation() {
    assert_eq!(tokens("7", "7", "8"), []);
    assert_eq!(tokens("7", "7", "6"), [Rule::Tokens]);
    assert_eq!(tokens("7", "7", "7"), [Rule::Tokens]);
    assert_eq!(tokens("7", "8", "9"), [Rule::Tokens]);
}

/// Two tokens are ordered only if one was received before the other was requested.
#[test]
fn concurrent_tokens_may_be_in_any_order() {
    let mut history = history(
        "
        0 1.1 asks
        1 1.1 begins 988
        2 2.1 asks
        5 2.1 begins 988
        7 2.1 token 5 8
        8 1.1 token 6 7
        9 1.1 done
        9 2.1 done",
    );
    history.faults = vec![forgets(3, 4)];
    assert_eq!(broken(&history), []);
}

fn writes(first: &str, second: &str, fenced: bool) -> (Vec<Rule>, usize) {
    let mut history = history(&format!("{IN_ORDER}\n600 1.1 {first}\n601 2.1 {second}"));
    history.promises.fenced = fenced;
    (broken(&history), check(&history).lost_updates)
}

#[test]
fn stale_write_or_lost_update_is_a_violation_if_fenced() {
    let old = "refused 7 2 2";
    assert_eq!(writes("writes 9 2 2", old, true), (vec![], 0));
    let taken = "writes 7 3 3";
    assert_eq!(writes("writes 9 2 2", taken, true), (vec![Rule::Writes], 0));
    assert_eq!(writes("writes 9 2 2", taken, false), (vec![], 0));
    let lost = "writes 9 2 3";
    assert_eq!(writes("writes 9 2 2", lost, true), (vec![Rule::Writes], 1));
    assert_eq!(writes("writes 9 2 2", lost, false), (vec![], 1));
}

#[test]
fn leftover_is_a_violation() {
    let mut history = history(IN_ORDER);
    history.left.push("the key `lock:door:0`".into());
    assert_eq!(broken(&history), [Rule::Leaks]);
    let over = |of: &str| breaks(&format!("{IN_ORDER}\n600 1 over {of}\n600 2 over 0 0"));
    assert_eq!(over("0 0"), []);
    assert_eq!(over("1 0"), [Rule::Leaks]);
    assert_eq!(over("0 1"), [Rule::Leaks]);
}

#[test]
fn worker_that_does_not_end_is_a_violation() {
    let mut history = history(&format!("{IN_ORDER}\n600 1 over 0 0"));
    assert_eq!(broken(&history), [Rule::Progress]);
    history.faults = vec![hits(Kind::WorkerKilled, 2, 600, 600)];
    assert_eq!(broken(&history), []);
}

#[test]
fn call_that_does_not_end_is_a_violation() {
    let asks = format!("{IN_ORDER}\n600 1.3 asks\n601 1.3 begins 900");
    assert_eq!(breaks(&asks), [Rule::Progress]);
    // Its runtime was dropped.
    assert_eq!(breaks(&format!("{asks}\n602 1 dropped")), []);
    let mut killed = history(&asks);
    killed.faults = vec![hits(Kind::WorkerKilled, 1, 602, 602)];
    assert_eq!(broken(&killed), []);
}

#[test]
fn wrong_result_is_a_violation() {
    let ends = |outcome: &str| breaks(&format!("{IN_ORDER}\n600 1.3 asks\n601 1.3 {outcome}"));
    assert_eq!(ends("busy"), []);
    assert_eq!(ends("wrong"), [Rule::Progress]);
    assert_eq!(ends("panicked"), [Rule::Progress]);
    assert_eq!(ends("busy\n602 1.3 busy"), [Rule::Progress]);
}

#[test]
fn too_few_holds_are_a_violation() {
    let text = format!("{IN_ORDER}\n9000 1.3 asks\n9001 1.3 busy");
    assert_eq!(breaks(&text), [Rule::Progress]);
    // A body takes long.
    let text = format!(
        "{IN_ORDER}\n3000 1.3 asks\n3001 1.3 begins 8000\n9000 1.3 steps 2000\n9001 1.3 done"
    );
    assert_eq!(breaks(&text), []);
}

#[test]
fn loss_without_a_fault_is_a_violation() {
    let text = "
          0 1.1 asks
          1 1.1 begins 988
        500 1.1 steps 988
       1450 1.1 steps 38
       1600 1.1 lost";
    let mut history = history(text);
    assert_eq!(broken(&history), [Rule::Loss]);
    history.faults = vec![fault(Kind::ServerStopped, 600, 1600)];
    assert_eq!(broken(&history), []);
    // The last proven lease ended at 1488.
    assert_eq!(check(&history).losses, [112 * MS]);
    // Between readings that are far apart the lease may have been renewed.
    let unseen = self::history(&text.replace("1450 1.1 steps 38", ""));
    assert_eq!((check(&unseen).losses, check(&unseen).lost), (vec![], 1));
    assert_eq!(breaks(&text.replace("asks", "unrenewed")), [Rule::Loss]);
    let ends = text
        .replace("asks", "unrenewed")
        .replace("500 1.1 steps 988", "")
        .replace("1450 1.1 steps 38", "");
    assert_eq!(breaks(&ends), []);
}

/// What is left of a lease whose only request had a late reply may not suffice for a renewal.
#[test]
fn loss_of_a_lease_that_a_busy_server_granted_late_is_excused() {
    let text = "
          0 1.1 asks
        880 1.1 begins 110
        900 1.1 steps 90
       1000 1.1 lost";
    assert_eq!(breaks(text), []);
    // The call had asked for it again meanwhile.
    assert_eq!(
        breaks(&text.replace("begins 110", "begins 200")),
        [Rule::Loss]
    );
}

/// The holder of a lock that a server had lost passed it on.
#[test]
fn local_handoff_of_a_forgotten_lock_is_excused() {
    let text = "
          0 1.1 asks
          1 1.1 begins 988
        150 2.1 asks
        151 2.1 begins 988
        160 1.2 asks
        200 1.1 done
        201 1.2 begins 788
        210 1.2 steps 778
        220 2.1 steps 919
        230 1.2 done
        240 2.1 done";
    let mut history = history(text);
    assert_eq!(broken(&history), [Rule::Exclusion]);
    history.faults = vec![forgets(100, 101)];
    assert_eq!(broken(&history), []);
}

/// A lock that was granted long before may have been lost long before.
#[test]
fn loss_before_a_late_body_is_excused_by_an_earlier_fault() {
    let text = "
          0 1.1 continues
       1250 1.1 begins 0
       1251 1.1 lost";
    let mut history = history(text);
    assert_eq!(broken(&history), [Rule::Loss]);
    history.faults = vec![fault(Kind::ClockStepped, 100, 101)];
    assert_eq!(broken(&history), []);
}

/// Another call held the lock long before the loss was noticed.
#[test]
fn loss_noticed_late_is_a_violation() {
    let text = |asks: &str, ends: u64| {
        let mut history = history(&format!(
            "
                 0 1.1 {asks}
                 1 1.1 begins 988
              1000 2.1 asks
              1001 2.1 begins 988
              1002 2.1 done
            {ends} 1.1 done"
        ));
        history.faults = vec![fault(Kind::ServerStopped, 0, 3000)];
        history
    };
    assert_eq!(broken(&text("asks", 2000)), []);
    assert_eq!(broken(&text("asks", 2400)), [Rule::Loss]);
    assert_eq!(broken(&text("guards", 2400)), []);
    assert_eq!(broken(&text("blocks", 2400)), []);
    // Its process was stopped.
    let mut stopped = text("asks", 2400);
    stopped.faults = vec![hits(Kind::WorkerStopped, 1, 1500, 2300)];
    assert_eq!(broken(&stopped), []);
    // A server lost its lock, so it may count on the lease for one ttl.
    let mut forgotten = text("asks", 3200);
    forgotten.faults.push(forgets(500, 501));
    assert_eq!(broken(&forgotten), []);
    forgotten = text("asks", 3400);
    forgotten.faults.push(forgets(500, 501));
    assert_eq!(broken(&forgotten), [Rule::Loss]);
}

/// The process was killed while the drop of its runtime waited for another thread.
#[test]
fn killed_process_whose_runtime_was_blocked_did_not_continue() {
    let text = |blocking: &str| {
        let mut history = history(&format!(
            "
               0 1.1 asks
               1 1.1 begins 988
             900 {blocking}
            1000 2.1 asks
            1001 2.1 begins 988
            1002 2.1 done"
        ));
        history.faults = vec![
            fault(Kind::ServerStopped, 0, 3000),
            hits(Kind::WorkerKilled, 1, 4000, 4000),
        ];
        broken(&history)
    };
    assert_eq!(text("1 blocking"), []);
    assert_eq!(text("1.1 steps 89"), [Rule::Loss]);
}

#[test]
fn excessive_wait_is_a_violation() {
    let waits = |wait: u64, until: u64| {
        format!(
            "{IN_ORDER}\n600 1.3 asks {wait}\n{until} 1.3 busy\n600 2.3 asks\n601 2.3 begins 988"
        ) + &format!("\n{until} 2.3 steps 5\n{until} 2.3 done")
    };
    assert_eq!(breaks(&waits(0, 1800)), []);
    assert_eq!(breaks(&waits(0, 2000)), [Rule::Waits]);
    assert_eq!(breaks(&waits(1000, 2300)), []);
    assert_eq!(breaks(&waits(1000, 2500)), [Rule::Waits]);
    assert_eq!(check(&history(&waits(1000, 2300))).longest_over, 700 * MS);
    let stalled = format!("{}\n2400 1 stalled 200", waits(1000, 2500));
    assert_eq!(breaks(&stalled), []);
}

/// The lock has no holder from 14 to `until`; the call that then acquires it was made at 600.
fn stuck(until: u64) -> History {
    history(&format!(
        "{IN_ORDER}\n600 1.3 asks\n{until} 1.3 begins 988\n{until} 1.3 done"
    ))
}

#[test]
fn lock_without_a_holder_is_a_violation() {
    assert_eq!(broken(&stuck(1800)), []);
    assert_eq!(check(&stuck(1800)).longest_gap, 1200 * MS);
    assert_eq!(broken(&stuck(2000)), [Rule::Stall]);
}

#[test]
fn faults_extend_the_permitted_gap() {
    let with = |until, fault| {
        let mut history = stuck(until);
        history.faults = vec![fault];
        check(&history).breaks(Rule::Stall)
    };
    // A ttl, a grant, and a second.
    assert!(!with(4500, fault(Kind::ReplyLost, 599, 600)));
    assert!(with(4700, fault(Kind::ReplyLost, 599, 600)));
    let away = |until| Fault {
        away: true,
        ..fault(Kind::ServerStopped, 599, until)
    };
    assert!(!with(4700, away(900)));
    assert!(with(9000, away(900)));
    // No waiter can continue.
    assert!(!with(9000, hits(Kind::WorkerStopped, 1, 600, 8999)));
    let killed = |at| hits(Kind::WorkerKilled, 1, at, at);
    let mut history = history(&format!(
        "{IN_ORDER}\n600 1.3 asks\n9000 2.9 tries\n9000 2.9 busy"
    ));
    history.faults = vec![killed(700)];
    history
        .events
        .retain(|event| event.worker != 1 || event.at < 700 * MS);
    assert!(!check(&history).breaks(Rule::Stall));
    history.faults = vec![killed(8999)];
    assert!(check(&history).breaks(Rule::Stall));
}

/// Another body blocks the waiter's thread.
#[test]
fn blocked_waiter_excuses_a_gap() {
    let text = |other: &str| {
        format!(
            "
               0 1.1 asks
               1 1.2 {other} 1
               2 1.2 begins 988
            3000 1.2 done
            3001 1.1 begins 988
            3002 1.1 done"
        )
    };
    assert_eq!(breaks(&text("blocks")), []);
    assert_eq!(breaks(&text("guards")), [Rule::Stall]);
}

/// The thread was blocked between the request and the reply.
#[test]
fn blocked_single_try_may_hold_the_lock() {
    let text = |blocked: &str| {
        format!(
            "
               0 2.1 tries
               5 1.1 asks
            3500 {blocked}
            3500 2.1 begins 10
            3501 2.1 done
            3502 1.1 begins 988
            3503 1.1 done"
        )
    };
    assert_eq!(breaks(&text("2 blocked 3499")), []);
    assert_eq!(breaks(&text("3 blocked 3499")), [Rule::Waits, Rule::Stall]);
}

#[test]
fn later_waiter_served_first_within_a_process_is_a_violation() {
    let text = |asks: u64| {
        format!(
            "
                 0 2.1 asks
                 1 2.1 begins 988
                 5 1.1 asks
            {asks} 1.2 asks
               350 2.1 done
               351 1.2 begins 988
               352 1.2 done
               353 1.1 begins 988
               354 1.1 done"
        )
    };
    assert_eq!(breaks(&text(100)), []);
    assert_eq!(breaks(&text(300)), [Rule::Order]);
    let mut history = history(&text(300));
    assert_eq!(check(&history).in_line, 3);
    history.promises.order = false;
    assert_eq!(broken(&history), []);
    history.promises.order = true;
    history.faults = vec![fault(Kind::ScriptsFlushed, 340, 341)];
    assert_eq!(broken(&history), []);
}

/// While the first worker waits, the others have turns.
fn turns(of: &[u32]) -> Vec<Rule> {
    let mut text = "0 1.1 asks".to_owned();
    for (number, worker) in of.iter().enumerate() {
        let (number, at) = (number + 2, 300 + number * 10);
        text += &format!(
            "
               1 {worker}.{number} asks
            {at} {worker}.{number} begins 988
            {at} {worker}.{number} done"
        );
    }
    text += "
        500 1.1 begins 988
        501 1.1 done";
    breaks(&text)
}

#[test]
fn second_turn_of_another_worker_is_a_violation() {
    assert_eq!(turns(&[2, 2, 3, 3]), []);
    assert_eq!(turns(&[2, 3, 2]), [Rule::Order]);
    // Shortly after the waiter's own process had a turn, the others may have entered the queue before it.
    assert_eq!(turns(&[2, 1, 3, 2, 3]), []);
}
