//! Histories of waiters that are served too late or never, and of processes that fail by themselves.

use super::handwritten::{MS, breaks, broken, fault, history, hits};
use crate::checker::{Rule, check};
use crate::fault::{Fault, Kind};
use crate::history::History;

#[test]
fn unavailable_server_without_a_fault_is_a_violation() {
    let text = "
         0 1.1 asks
         1 1.1 begins 988
         9 1.1 done
        620 1.2 tries
        630 1.2 unavailable";
    assert_eq!(breaks(text), [Rule::Available]);
    assert_eq!(breaks(&format!("{text}\n 625 2 stalled 300")), []);
    assert_eq!(breaks(&text.replace("tries", "asks 10")), []);
    // The process may still be connecting.
    assert_eq!(breaks(&text.replace("620 1.2", "420 1.2")), []);
    let mut history = history(text);
    history.faults = vec![fault(Kind::ReplyLost, 622, 623)];
    assert_eq!(broken(&history), []);
    history.faults = vec![fault(Kind::ReplyLost, 631, 632)];
    assert_eq!(broken(&history), [Rule::Available]);
}

#[test]
fn unintended_panic_is_a_violation() {
    let text = "
        0 1.1 asks
        1 1.1 begins 988
        9 1.1 done";
    assert_eq!(breaks(text), []);
    assert_eq!(breaks(&format!("{text}\n 9 1 panics")), [Rule::Panics]);
}

#[test]
fn hanging_shutdown_is_a_violation() {
    let shut = |took: u64| {
        breaks(&format!(
            "
            0 1.1 asks
            1 1.1 begins 988
            9 1.1 done
           10 2.1 asks
           10 2.1 begins 988
           10 2.1 done
           11 1   shut {took}"
        ))
    };
    assert_eq!(shut(4000), []);
    assert_eq!(shut(20_000), [Rule::Shutdown]);
}

/// A shutdown with 200 ms of grace begins at 100. A call that holds the lock, and one that waits, end as
/// given.
fn shuts_down(holder: &str, waiter: &str) -> Vec<Rule> {
    breaks(&format!(
        "
          0 1.1 asks
          1 1.1 begins 1500
          5 1.2 asks
        100 1   shuts 200
        {waiter} 1.2 ended
        {holder}
        400 1   shut 300"
    ))
}

#[test]
fn call_that_a_shutdown_ends_too_early_or_too_late_is_a_violation() {
    assert_eq!(shuts_down("310 1.1 ended", "101"), []);
    assert_eq!(shuts_down("210 1.1 done", "101"), []);
    assert_eq!(shuts_down("290 1.1 ended", "101"), [Rule::Shutdown]);
    assert_eq!(shuts_down("310 1.1 ended", "99"), [Rule::Shutdown]);
    assert_eq!(shuts_down("310 1.1 ended", "1500"), [Rule::Shutdown]);
}

#[test]
fn body_that_holds_a_lock_after_a_shutdown_is_a_violation() {
    let steps = |left: u64| shuts_down(&format!("420 1.1 steps {left} \n 421 1.1 ended"), "101");
    assert_eq!(steps(0), []);
    assert_eq!(steps(1080), [Rule::Shutdown]);
}

/// `stopped` waiters are stopped when the lock is released at 500; another call acquires it at `until`.
fn after_a_row(stopped: u32, until: u64) -> History {
    let mut text = "
          0 9.1 asks
          1 9.1 begins 988
        500 9.1 done"
        .to_owned();
    for worker in 1..=stopped {
        text += &format!(
            "
              5 {worker}.1 asks
          30000 {worker}.1 busy"
        );
    }
    text += &format!(
        "
              6 8.1 asks
        {until} 8.1 begins 988
        {until} 8.1 done
          30000 8.2 tries
          30000 8.2 begins 988
          30000 8.2 done"
    );
    let mut history = history(&text);
    history.promises.order = false;
    history.faults = (1..=stopped)
        .map(|worker| hits(Kind::WorkerStopped, worker, 400, 29_999))
        .collect();
    history
}

#[test]
fn several_stopped_waiters_extend_the_permitted_gap() {
    let stalls = |stopped, until| check(&after_a_row(stopped, until)).breaks(Rule::Stall);
    // A ttl, a grant, a second, and 0.2 s for each stopped waiter.
    assert!(!stalls(1, 4600));
    assert!(stalls(1, 4900));
    assert!(!stalls(3, 5000));
    assert!(stalls(3, 5200));
    assert!(stalls(3, 12_000));
}

#[test]
fn cut_off_worker_excuses_no_stall_of_others() {
    let cut_off = |workers: Vec<u32>| {
        let mut history = after_a_row(1, 9000);
        history.faults = vec![Fault {
            away: true,
            workers,
            ..fault(Kind::BlackHole, 400, 29_999)
        }];
        check(&history).breaks(Rule::Stall)
    };
    assert!(cut_off(vec![1]));
    assert!(!cut_off(vec![]));
}

/// While one call waits, gives up and waits again, the others acquire the lock repeatedly.
#[test]
fn waiter_that_gives_up_after_being_skipped_is_a_violation() {
    let text = |others: &str| {
        let mut text = "
               0 1.1 asks 2000
            2000 1.1 busy"
            .to_owned();
        for n in 0..20 {
            let (at, worker, call) = (50 + n * 100, 2 + n % 2, n + 1);
            text += &format!(
                "
                {} {worker}.{call} asks
                {at} {worker}.{call} begins 988
                {} {worker}.{call} done",
                at - 40,
                at + 50,
            );
        }
        text + others
    };
    assert_eq!(breaks(&text("")), [Rule::Order]);
    let mut history = history(&text(""));
    history.faults = vec![fault(Kind::ScriptsFlushed, 0, 1)];
    assert_eq!(broken(&history), []);
    assert!(history.events.iter().all(|event| event.at <= 2000 * MS));
}

/// A thread that blocks after its guard was dropped holds no lock.
#[test]
fn blocked_thread_without_a_call_excuses_no_stall() {
    let text = |busy: &str| {
        let mut history = history(&format!(
            "
              0 1.1 asks
              1 1.1 begins 988
              2 1.1 done
              0 2.1 asks
            {busy}
            700 1   blocked 698
            500 2.1 begins 988
            501 2.1 done"
        ));
        history.promises.gap = Some(300 * MS);
        check(&history).breaks(Rule::Stall)
    };
    assert!(text(""));
    // It waits for the lock itself, and may have been granted it.
    assert!(!text(
        "1 1.2 asks
         702 1.2 begins 988
         703 1.2 done"
    ));
}

#[test]
fn refused_call_that_waits_alone_is_a_violation() {
    let text = |other: &str| {
        breaks(&format!(
            "
              0 1.1 asks
              1 1.1 begins 988
              {other}
             50 2.2 alone
             51 2.2 busy
            100 1.1 done"
        ))
    };
    assert_eq!(text(""), [Rule::Waits]);
    assert_eq!(text("40 2.1 asks 60 \n 100 2.1 busy"), []);
    // That one had left, or is another process's.
    assert_eq!(text("30 2.1 asks 10 \n 40 2.1 busy"), [Rule::Waits]);
    assert_eq!(text("40 3.1 asks 60 \n 100 3.1 busy"), [Rule::Waits]);
}
