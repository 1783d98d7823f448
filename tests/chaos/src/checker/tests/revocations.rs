//! Histories in which somebody wants a lock back.

use super::handwritten::{MS, breaks, broken, forgets, history};
use crate::checker::{Rule, check};
use crate::journal::EventKind;

/// Worker 1 holds the lock, which worker 3 wants back from `whom`.
fn asked(whom: &str) -> String {
    format!(
        "
          0 1 connects a
          0 2 connects b
          1 1.1 asks
          2 1.1 begins 988
        100 3 wants {whom}
        110 1.1 steps 880
        120 1.1 revoked
        121 3 got 100 stopped"
    )
}

#[test]
fn lock_is_given_up_only_if_somebody_has_asked_its_worker() {
    assert_eq!(breaks(&asked("a")), []);
    // From whoever has it.
    assert_eq!(breaks(&asked("")), []);
    assert_eq!(breaks(&asked("b")), [Rule::Loss]);
    let later = asked("a").replace("100 3 wants a", "  2 1.1 steps 980");
    assert_eq!(breaks(&later), [Rule::Loss]);
    let verdict = check(&history(&asked("a")));
    assert_eq!(verdict.lost, 1);
}

#[test]
fn holder_that_is_said_to_have_stopped_runs_no_more() {
    let early = asked("a").replace("121 3 got", "109 3 got");
    assert_eq!(breaks(&early), [Rule::Stopped]);
    assert_eq!(breaks(&early.replace("stopped", "unconfirmed")), []);
}

#[test]
fn ask_excuses_no_other_loss_and_no_second_holder() {
    let lost = asked("a").replace("1.1 revoked", "1.1 lost");
    assert_eq!(breaks(&lost), [Rule::Loss]);
    let both = format!(
        "{}
        105 2.1 asks
        106 2.1 begins 988
        400 2.1 done",
        asked("a")
    );
    assert_eq!(breaks(&both), [Rule::Exclusion]);
}

/// Worker 3 takes the lock from `whom`, and worker 2 acquires it while worker 1 does not know yet.
fn taken(whom: &str, answer: &str, noticed: u64) -> String {
    let left = 1000 - noticed;
    format!(
        "
          0 1 connects a
          0 2 connects b
          1 1.1 asks
          2 1.1 begins 988
          3 1.1 token 2 7
         10 2.1 asks
        100 3 takes {whom}
        105 3 got 100 {answer}
        110 2.1 begins 988
        111 2.1 token 110 9
        {noticed} 1.1 steps {left}
        {noticed} 1.1 lost
        900 2.1 done"
    )
}

#[test]
fn holder_may_go_on_until_it_notices_that_its_lock_was_taken() {
    assert_eq!(breaks(&taken("a", "8", 300)), []);
    assert_eq!(breaks(&taken("", "8", 300)), []);
    // The request may have been carried out.
    assert_eq!(breaks(&taken("a", "nothing", 300)), []);
    for (whom, answer) in [("b", "8"), ("a", "stopped")] {
        let rules = breaks(&taken(whom, answer, 300));
        assert!(rules.contains(&Rule::Exclusion), "{rules:?}");
        assert!(rules.contains(&Rule::Loss), "{rules:?}");
    }
}

#[test]
fn taken_lock_is_noticed_by_the_next_renewal() {
    let late = |kind: &str, until: u64| {
        let left = 6000 - until;
        let mut history = history(&format!(
            "
              0 1 connects a
              1 1.1 {kind}
              2 1.1 begins 5900
             10 2.1 asks
            100 3 takes a
            105 3 got 100 8
            110 2.1 begins 5900
            {until} 1.1 steps {left}
            {until} 2.1 steps 5900
            {until} 1.1 lost
           5000 2.1 done"
        ));
        for event in &mut history.events {
            if let EventKind::Called { ttl, .. } = &mut event.what {
                *ttl = 6000 * MS;
            }
        }
        broken(&history)
    };
    assert_eq!(late("asks", 3000), []);
    assert_eq!(late("asks", 4000), [Rule::Exclusion]);
    // Nothing renews it.
    assert_eq!(late("unrenewed", 4000), []);
}

#[test]
fn number_of_a_force_lies_between_those_of_the_holds() {
    assert_eq!(breaks(&taken("a", "8", 300)), []);
    for number in ["7", "0", "9", "10"] {
        assert_eq!(breaks(&taken("a", number, 300)), [Rule::Tokens], "{number}");
    }
    // A holder that had its number before the force drew, and goes on.
    let shut_out = taken("a", "10", 300).replace("105 3 got", "112 3 got");
    assert_eq!(breaks(&shut_out), []);
    let shut_out = shut_out.replace("900 2.1", "800 2.1 steps 300\n 900 2.1");
    assert_eq!(breaks(&shut_out), [Rule::Tokens]);
}

/// Worker 1 was granted the lock before it was deleted, heard of it after that, and lets another reader join.
#[test]
fn reader_that_joins_a_hold_whose_grant_came_late_may_overlap() {
    let mut joined = history(
        "
          1 1.1 reads
        200 1.1 begins 800
        250 1.2 reads
        251 1.2 begins 750
        300 2.1 asks
        301 2.1 begins 988
        310 1.2 steps 690
        310 2.1 steps 979
        320 1.1 lost
        320 1.2 lost
        330 2.1 done",
    );
    assert!(broken(&joined).contains(&Rule::Exclusion));
    joined.faults = vec![forgets(100, 101)];
    assert_eq!(broken(&joined), []);
}
