//! Histories of calls that share a lock, and of calls for several keys.

use super::handwritten::{breaks, broken, forgets, history};
use crate::checker::{Rule, check};
use crate::history::History;

/// One call of each kind, by a worker of its own, from `10 * n` to 500 ms.
fn beside(kinds: &[&str]) -> History {
    let mut text = String::new();
    for (n, kind) in kinds.iter().enumerate() {
        let (worker, at) = (n + 1, 10 * n);
        text += &format!(
            "
            {at} {worker}.1 {kind}
            {at} {worker}.1 begins 988
            450 {worker}.1 steps 500
            500 {worker}.1 done"
        );
    }
    history(&text)
}

#[test]
fn holders_within_all_limits_are_accepted() {
    for kinds in [
        &["reads", "reads", "reads", "reads"][..],
        &["two", "reads"],
        &["reads", "three", "three"],
        &["two", "three"],
    ] {
        assert_eq!(broken(&beside(kinds)), [], "{kinds:?}");
    }
}

#[test]
fn more_holders_than_the_lowest_limit_are_a_violation() {
    for kinds in [
        &["two", "two", "two"][..],
        &["two", "three", "three"],
        &["three", "three", "two"],
        &["reads", "two", "reads"],
        &["reads", "three", "reads", "three"],
    ] {
        assert_eq!(broken(&beside(kinds)), [Rule::Limits], "{kinds:?}");
    }
}

#[test]
fn readers_of_one_worker_may_share_one_hold() {
    let text = |worker: u32| {
        format!(
            "
              0 1.1 two
              0 1.1 begins 988
             10 2.1 reads
             10 2.1 begins 988
             20 {worker}.2 reads
             20 {worker}.2 begins 988
            100 1.1 steps 888
            100 2.1 steps 898
            100 {worker}.2 steps 908
            110 1.1 done
            110 2.1 done
            110 {worker}.2 done"
        )
    };
    assert_eq!(breaks(&text(2)), []);
    assert_eq!(breaks(&text(3)), [Rule::Limits]);
}

#[test]
fn too_many_holders_of_a_forgotten_lock_are_excused() {
    let mut history = beside(&["two", "two", "two"]);
    history.faults = vec![forgets(15, 16)];
    assert_eq!(broken(&history), []);
    assert_eq!(check(&history).double_holds, 1);
    history.faults = vec![forgets(30, 31)];
    assert_eq!(broken(&history), [Rule::Limits]);
}

#[test]
fn exclusive_holder_beside_one_that_shares_is_a_violation() {
    assert_eq!(broken(&beside(&["reads", "asks"])), [Rule::Exclusion]);
    assert_eq!(broken(&beside(&["asks", "reads"])), [Rule::Exclusion]);
    assert_eq!(broken(&beside(&["asks", "two"])), [Rule::Exclusion]);
}

/// Between 100 and 110, the holder becomes a reader; another call holds the lock from `begins` to `ends`.
fn downgraded(other: &str, begins: u64, ends: u64) -> Vec<Rule> {
    breaks(&format!(
        "
               0 1.1 downgrades
               0 1.1 begins 988
               5 2.1 {other}
             100 1.1 steps 888
             110 1.1 downgraded 100 878
        {begins} 2.1 begins 988
          {ends} 2.1 steps 900
          {ends} 2.1 done
             200 1.1 steps 788
             210 1.1 done"
    ))
}

#[test]
fn reader_beside_a_downgraded_holder_is_accepted() {
    assert_eq!(downgraded("reads", 120, 130), []);
    assert_eq!(downgraded("reads", 105, 130), []);
    assert_eq!(downgraded("reads", 90, 130), [Rule::Exclusion]);
}

#[test]
fn writer_between_the_parts_of_a_downgrade_is_a_violation() {
    assert_eq!(downgraded("asks", 101, 109), [Rule::Exclusion]);
    assert_eq!(downgraded("asks", 120, 130), [Rule::Exclusion]);
    assert_eq!(downgraded("asks", 220, 230), []);
}

#[test]
fn call_that_acquires_several_locks_holds_each() {
    let text = |key: u32| {
        breaks(&format!(
            "
              0 1.1 transfers 0 2
              1 1.1 begins 988
             10 2.1 guards {key}
             11 2.1 begins 988
             20 2.1 steps 979
             21 2.1 done
             30 1.1 steps 960
             31 1.1 done"
        ))
    };
    assert_eq!(text(0), [Rule::Exclusion]);
    assert_eq!(text(1), []);
    assert_eq!(text(2), [Rule::Exclusion]);
}

/// The call releases its other locks when it notices the loss of one, and ends after the server has confirmed
/// that.
#[test]
fn call_that_loses_one_of_several_locks_gives_the_others_up() {
    let text = |key: u32| {
        history(&format!(
            "
              0 1.1 transfers 0 2
              1 1.1 begins 988
             10 2.1 guards {key}
             20 2.1 begins 988
             21 1.1 lost
             30 2.1 steps 960
             31 2.1 done"
        ))
    };
    assert_eq!(broken(&text(2)), [Rule::Loss]);
    for key in [0, 2] {
        let mut forgotten = text(key);
        forgotten.faults.push(forgets(5, 6));
        assert_eq!(broken(&forgotten), []);
    }
}

/// Two calls, one after the other, receive these tokens.
fn tokens(kinds: [&str; 2], numbers: [u64; 2]) -> Vec<Rule> {
    let [first, second] = kinds;
    breaks(&format!(
        "
         0 1.1 {first}
         1 1.1 begins 988
         3 1.1 token 2 {}
         7 1.1 done
         8 2.1 {second}
         8 2.1 begins 988
         9 2.1 token 8 {}
        11 2.1 done",
        numbers[0], numbers[1]
    ))
}

#[test]
fn only_tokens_of_readers_may_decrease() {
    assert_eq!(tokens(["reads", "reads"], [8, 7]), []);
    assert_eq!(tokens(["reads", "reads"], [8, 8]), [Rule::Tokens]);
    assert_eq!(tokens(["asks", "reads"], [8, 7]), [Rule::Tokens]);
    assert_eq!(tokens(["reads", "asks"], [8, 7]), [Rule::Tokens]);
    assert_eq!(tokens(["reads", "asks"], [7, 8]), []);
}

#[test]
fn only_readers_of_one_process_may_have_the_same_token() {
    let text = |kind: &str| {
        breaks(&format!(
            "
             0 1.1 {kind}
             1 1.1 begins 988
             3 1.1 token 2 7
             4 1.1 done
             5 1.2 {kind}
             5 1.2 begins 988
             6 1.2 token 5 7
             9 1.2 done"
        ))
    };
    assert_eq!(text("reads"), []);
    assert_eq!(text("asks"), [Rule::Tokens]);
}

#[test]
fn downgraded_holder_keeps_its_token() {
    let text = |number: u64| {
        breaks(&format!(
            "
             0 1.1 downgrades
             1 1.1 begins 988
             3 1.1 token 2 7
             5 1.1 downgraded 4 983
             6 1.1 token 6 {number}
             9 1.1 done"
        ))
    };
    assert_eq!(text(7), []);
    assert_eq!(text(8), [Rule::Tokens]);
}
