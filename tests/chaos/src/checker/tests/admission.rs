//! Histories of waiters that others pass, and of waiters that could enter and do not.

use super::handwritten::{MS, breaks, history as parse, hits};
use crate::checker::{Rule, check};
use crate::fault::Kind;
use crate::history::History;

/// A call waits while a reader holds the lock; another worker's readers enter at these times.
fn passed(waiter: &str, readers: &[u64]) -> Vec<Rule> {
    let mut text = format!(
        "
           0 9.1 reads
           1 9.1 begins 988
          10 1.1 {waiter}"
    );
    for (n, at) in readers.iter().enumerate() {
        let (call, over) = (n + 1, at + 150);
        text += &format!(
            "
              {at} 2.{call} reads
              {at} 2.{call} begins 988
            {over} 2.{call} done"
        );
    }
    text += "
         950 9.1 steps 900
        1000 9.1 done
        1001 1.1 begins 988
        1002 1.1 done";
    breaks(&text)
}

#[test]
fn reader_that_passes_a_waiting_writer_is_a_violation() {
    // Readers of one process that enter together have one place in the queue.
    assert_eq!(passed("asks", &[300, 305, 320]), []);
    assert_eq!(passed("asks", &[300, 500]), [Rule::Order]);
    // Before the writer is in the queue.
    assert_eq!(passed("asks", &[20, 150, 300]), []);
}

#[test]
fn readers_of_one_batch_begin_in_any_order() {
    assert_eq!(passed("reads", &[300, 500]), [Rule::Order]);
    assert_eq!(passed("reads", &[300, 990]), []);
    // Of one process, too.
    let within = |kind: &str, begins: u32| {
        breaks(&format!(
            "
                 0 2.1 asks
                 1 2.1 begins 988
                 5 1.1 {kind}
               300 1.2 {kind}
               350 2.1 done
               351 1.2 begins 988
               352 1.2 done
          {begins} 1.1 begins 988
               500 1.1 done"
        ))
    };
    assert_eq!(within("reads", 353), []);
    assert_eq!(within("asks", 353), [Rule::Order]);
    assert_eq!(within("reads", 460), [Rule::Order]);
}

#[test]
fn turns_with_different_limits_have_places_of_their_own() {
    let text = |second: &str| {
        breaks(&format!(
            "
               0 9.1 reads
               1 9.1 begins 988
              10 1.1 asks
              11 2.1 reads
              12 2.2 {second}
             300 2.1 begins 988
             310 2.1 done
             500 2.2 begins 988
             510 2.2 done
             950 9.1 steps 900
            1000 9.1 done
            1001 1.1 begins 988
            1002 1.1 done"
        ))
    };
    assert_eq!(text("three"), []);
    assert_eq!(text("reads"), [Rule::Order]);
}

/// While one call holds the lock until 9001, another one waits from 100 to `until`.
fn waits_beside(holder: &str, waiter: &str, until: u64) -> History {
    parse(&format!(
        "
              0 1.1 {holder}
              1 1.1 begins 20000
            100 2.1 {waiter}
        {until} 2.1 begins 988
        {until} 2.1 done
           9001 1.1 done"
    ))
}

#[test]
fn waiter_that_fits_beside_the_holders_enters_soon() {
    let stalls =
        |holder, waiter, until| check(&waits_beside(holder, waiter, until)).breaks(Rule::Stall);
    assert!(!stalls("reads", "reads", 1300));
    assert!(stalls("reads", "reads", 1500));
    assert!(stalls("three", "two", 1500));
    assert!(!stalls("asks", "reads", 8000));
    assert!(!stalls("reads", "asks", 8000));
    // A fault may have left a waiter that is gone ahead of it.
    let after_a_death = |until| {
        let mut history = waits_beside("three", "two", until);
        history.faults = vec![hits(Kind::WorkerKilled, 4, 90, 90)];
        history
    };
    assert!(check(&after_a_death(7000)).breaks(Rule::Stall));
    let mut history = after_a_death(6000);
    assert!(!check(&history).breaks(Rule::Stall));
    history.promises.gap = Some(5000 * MS);
    assert!(check(&history).breaks(Rule::Stall));
}

#[test]
fn waiter_of_which_it_is_unknown_if_it_fits_is_not_judged() {
    let with = |other: &str| {
        let mut history = waits_beside("reads", "reads", 5000);
        let more = parse(&format!(
            "
              50 4.1 {other}
            5001 4.1 busy"
        ));
        history.events.extend(more.events);
        check(&history).breaks(Rule::Stall)
    };
    // A writer may be ahead of it.
    assert!(!with("asks 4951"));
    assert!(with("reads"));
}

/// An acquisition shows that the lock is not stuck.
#[test]
fn acquisition_ends_an_idle_span() {
    let mut history = waits_beside("reads", "reads", 2000);
    assert!(check(&history).breaks(Rule::Stall));
    let other = parse(
        "
        1000 4.1 reads
        1000 4.1 begins 988
        1001 4.1 done",
    );
    history.events.extend(other.events);
    assert!(!check(&history).breaks(Rule::Stall));
}

/// Twelve times a call waits for another one to end. The first `slow` of them wait for 300 ms after that, the
/// others for `usual` milliseconds.
fn gaps(slow: u64, usual: u64) -> History {
    let pairs = (1..=12).map(|n| {
        let gap = if n <= slow { 300 } else { usual };
        let (from, ends) = (n * 1000, n * 1000 + 100);
        format!(
            "
            {from} 1.{n} asks
            {from} 1.{n} begins 988
            {} 2.{n} asks
            {ends} 1.{n} done
            {} 2.{n} begins 988
            {} 2.{n} done",
            from + 50,
            ends + gap,
            ends + gap + 1
        )
    });
    parse(&pairs.collect::<String>())
}

/// Waiters that have to poll need longer than those that are let in.
#[test]
fn mean_gap_is_short_if_waiters_need_not_poll() {
    let stalls = |slow, usual| {
        let mut history = gaps(slow, usual);
        assert!(!check(&history).breaks(Rule::Stall));
        history.promises.mean_gap = Some(6 * MS);
        check(&history).breaks(Rule::Stall)
    };
    assert!(!stalls(0, 4));
    assert!(stalls(0, 12));
    // The machine may cause two long ones.
    assert!(!stalls(2, 4));
    assert!(stalls(3, 4));
}
