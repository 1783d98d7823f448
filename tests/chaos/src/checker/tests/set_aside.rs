//! Histories of calls that are not polled for a while.

use super::handwritten::{MS, broken, history};
use crate::checker::Rule;
use crate::history::History;

/// Returns the rules that are broken, apart from that of progress: so little happens.
fn broken_but_slow(history: &History) -> Vec<Rule> {
    let mut rules = broken(history);
    rules.retain(|rule| *rule != Rule::Progress);
    rules
}

/// A call that waits for at most `wait` is not polled from 20 on, `then` until the end. Another worker's call
/// acquires the lock, which is free from 500 on, at `until`.
fn beside(wait: u64, until: u64, then: &str) -> Vec<Rule> {
    broken_but_slow(&history(&format!(
        "
              0 1.1 asks
              1 1.1 begins 988
             10 2.1 leaves {wait}
             20 2.1 aside
            100 3.1 asks
            500 1.1 done
        {until} 3.1 begins 988
        {until} 3.1 done
        {then}"
    )))
}

#[test]
fn grant_to_a_call_that_is_not_polled_passes_on_after_two_seconds() {
    let until = |until| beside(60_000, until, "6000 2.1 polled \n 6000 2.1 busy");
    // A grant, a poll of the first waiter, and the noise of the machine.
    assert_eq!(until(3700), []);
    assert_eq!(until(3900), [Rule::Stall]);
    // It was dropped at once, and keeps no other waiting.
    let soon = beside(60_000, 2000, "600 2.1 polled \n 600 2.1 busy");
    assert_eq!(soon, [Rule::Stall]);
}

#[test]
fn only_the_call_that_is_not_polled_may_wait_beyond_its_bound() {
    let then = |then: &str| beside(700, 501, then);
    assert_eq!(then("9000 2.1 polled \n 9000 2.1 busy"), []);
    let acquires = "9000 2.1 polled \n 9000 2.1 begins 988 \n 9001 2.1 done";
    assert_eq!(then(acquires), []);
    // It is polled again before its deadline, and returns long after it.
    let late = then("600 2.1 polled \n 9000 2.1 busy");
    assert_eq!(late, [Rule::Waits, Rule::Stall]);
}

/// A gap that the schedule promises includes the time for which a grant is not picked up.
#[test]
fn promised_gap_is_no_longer_for_calls_that_are_not_polled() {
    let mut history = history(
        "
          0 1.1 asks
          1 1.1 begins 988
         10 2.1 leaves 60000
         20 2.1 aside
        100 3.1 asks
        500 1.1 done
       3200 3.1 begins 988
       3200 3.1 done
       6000 2.1 polled
       6000 2.1 busy",
    );
    assert_eq!(broken_but_slow(&history), []);
    history.promises.gap = Some(2600 * MS);
    assert_eq!(broken_but_slow(&history), [Rule::Stall]);
}

/// The process whose call is not polled has turns that no body shows.
#[test]
fn waiter_behind_a_call_that_is_not_polled_may_be_passed() {
    let passed = |aside: &str| {
        broken_but_slow(&history(&format!(
            "
              0 1.1 asks
              1 1.1 begins 988
             10 2.1 leaves 60000
             {aside}
             30 2.2 asks
            500 1.1 done
            501 3.1 asks
            501 3.1 begins 988
            502 3.1 done
            900 1.2 asks
            900 1.2 begins 988
            901 1.2 done
            910 3.2 asks
            910 3.2 begins 988
            911 3.2 done
            920 2.2 begins 988
            921 2.2 done
           1900 2.1 busy"
        )))
    };
    assert_eq!(passed("20 2.1 aside\n 1000 2.1 polled"), []);
    assert_eq!(passed(""), [Rule::Order]);
}

/// A call for several keys keeps those that it has for as long as it is polled.
#[test]
fn keys_of_a_call_that_is_not_polled_are_free() {
    let text = |aside: &str, until: u64| {
        let mut history = history(&format!(
            "
              0 1.1 asks
              0 1.1 begins 988
             10 2.1 transfers 0 1
             {aside}
             20 3.1 asks
             30 1.1 done
        {until} 3.1 begins 988
        {until} 3.1 done
           9000 2.1 begins 988
           9001 2.1 done"
        ));
        history.promises.order = false;
        broken_but_slow(&history)
    };
    assert_eq!(text("", 8000), []);
    assert_eq!(text("15 2.1 aside\n 8500 2.1 polled", 3000), []);
    assert_eq!(text("15 2.1 aside\n 8500 2.1 polled", 8000), [Rule::Stall]);
}
