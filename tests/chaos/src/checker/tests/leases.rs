//! Histories of leases that holders count on, and lose, although servers were reachable.

use super::handwritten::{MS, breaks, broken, fault, forgets, history, hits};
use crate::checker::{Rule, check};
use crate::fault::Kind;
use crate::history::History;
use crate::journal::{Event, EventKind};
use crate::witness::Sample;

/// At 500 ms a server reports `left` ms for a lock that is held from 1 to 900.
fn sampled(left: u64) -> History {
    let text = "
          0 1.1 asks
          1 1.1 begins 988
        400 1.1 steps 900
        600 1.1 steps 700
        900 1.1 done";
    let sample = Sample {
        key: 0,
        from: 500 * MS,
        to: 501 * MS,
        left: left * MS,
    };
    History {
        samples: vec![sample],
        ..history(text)
    }
}

#[test]
fn lease_shorter_on_the_server_than_believed_is_a_violation() {
    assert_eq!(broken(&sampled(810)), []);
    assert_eq!(check(&sampled(810)).believed, 1);
    assert_eq!(broken(&sampled(740)), [Rule::Belief]);
    assert_eq!(broken(&sampled(0)), [Rule::Belief]);
    // The server may have lost the lock.
    let mut forgotten = sampled(0);
    forgotten.faults = vec![forgets(450, 451)];
    assert_eq!(broken(&forgotten), []);
    forgotten.faults = vec![forgets(550, 551)];
    assert_eq!(broken(&forgotten), [Rule::Belief]);
}

#[test]
fn sample_of_another_lock_or_time_is_ignored() {
    let mut other = sampled(0);
    other.samples[0].key = 1;
    assert_eq!(broken(&other), []);
    let mut after = sampled(0);
    (after.samples[0].from, after.samples[0].to) = (901 * MS, 902 * MS);
    assert_eq!(broken(&after), []);
    // It may have been taken before the guard was read.
    let mut before = sampled(0);
    (before.samples[0].from, before.samples[0].to) = (400 * MS + 900_000, 402 * MS);
    assert_eq!(broken(&before), []);
    // The sample took too long to be precise.
    let mut slow = sampled(0);
    slow.samples[0].to = 560 * MS;
    assert_eq!(broken(&slow), []);
}

/// A lease that ends at 2000 is lost at that time; the server was unavailable until `until`.
fn lost_after_an_outage(until: u64) -> History {
    let text = "
           0 1.1 asks
           1 1.1 begins 1999
        1990 1.1 steps 10
        2001 1.1 lost";
    let mut history = history(text);
    for event in &mut history.events {
        if let EventKind::Called { ttl, .. } = &mut event.what {
            *ttl = 30_000 * MS;
        }
    }
    history.faults = vec![fault(Kind::ServerKilled, 500, until)];
    history
}

#[test]
fn lease_lost_despite_time_to_renew_is_a_violation() {
    assert_eq!(broken(&lost_after_an_outage(1500)), []);
    assert_eq!(broken(&lost_after_an_outage(800)), [Rule::Loss]);
    // The holder's process did not run.
    let mut stopped = lost_after_an_outage(800);
    let stop = hits(Kind::WorkerStopped, 1, 900, 1900);
    stopped.faults.push(stop);
    assert_eq!(broken(&stopped), []);
    // The server had lost the lock.
    let mut forgotten = lost_after_an_outage(800);
    forgotten.faults.push(forgets(700, 701));
    assert_eq!(broken(&forgotten), []);
}

#[test]
fn lease_lost_before_its_end_is_a_violation() {
    let text = "
          0 1.1 asks
          1 1.1 begins 1999
        900 1.1 lost";
    let mut history = history(text);
    history.faults = vec![fault(Kind::CommandDenied, 500, 1500)];
    assert_eq!(broken(&history), [Rule::Loss]);
    history.faults.push(forgets(700, 701));
    assert_eq!(broken(&history), []);
}

#[test]
fn loss_after_killed_connections_is_a_violation() {
    let mut killed = lost_after_an_outage(501);
    let kill = |n: u64| fault(Kind::ClientsKilled, 100 + n * 20, 100 + n * 20);
    killed.faults = (0..90).map(kill).collect();
    assert_eq!(broken(&killed), [Rule::Loss]);
    // A busy machine takes long to connect anew.
    let stall = |n: u64| Event {
        at: (500 + n * 100) * MS,
        boot: (500 + n * 100) * MS,
        worker: 1,
        call: 0,
        what: EventKind::Stalled { for_: 45 * MS },
    };
    killed.events.extend((0..5).map(stall));
    assert_eq!(broken(&killed), []);
}

#[test]
fn lock_lost_before_its_body_begins_is_a_violation() {
    let text = |loss: &str| {
        format!(
            "
              0 1.1 transfers 0 1
              0 2.1 asks
              1 2.1 begins 988
              9 2.1 done
            900 1.1 {loss}"
        )
    };
    assert_eq!(breaks(&text("busy")), []);
    assert_eq!(breaks(&text("lost")), [Rule::Loss]);
    let mut history = history(&text("lost"));
    history.faults = vec![fault(Kind::ReplyLost, 100, 101)];
    assert_eq!(broken(&history), []);
}

/// Worker 1 leaves the lock at 10 to its process, which continues with it at 300; a server loses it at 100,
/// so that worker 2 acquires it at 200.
fn lost_between_calls(call: &str) -> History {
    let text = format!(
        "
          0 1.1 {call}
          1 1.1 begins 999
         10 1.1 done
        200 2.1 asks
        201 2.1 begins 999
        300 1.2 asks
        301 1.2 begins 690
        310 2.1 steps 880
        320 1.2 steps 670
        330 1.2 done
        340 2.1 done"
    );
    History {
        faults: vec![forgets(100, 101)],
        ..history(&text)
    }
}

#[test]
fn loss_of_a_kept_lock_excuses_its_next_call() {
    assert_eq!(broken(&lost_between_calls("keeps")), []);
    assert_eq!(broken(&lost_between_calls("asks")), [Rule::Exclusion]);
    let mut late = lost_between_calls("keeps");
    late.faults = vec![forgets(350, 351)];
    assert_eq!(broken(&late), [Rule::Exclusion]);
}

/// A server reports at `at` that a lock is held that was left to its process at 900.
fn kept_at(at: u64) -> History {
    let text = "
          0 1.1 keeps
          1 1.1 begins 988
        900 1.1 done";
    let sample = Sample {
        key: 0,
        from: at * MS,
        to: (at + 1) * MS,
        left: 500 * MS,
    };
    History {
        samples: vec![sample],
        ..history(text)
    }
}

#[test]
fn lock_kept_for_longer_than_its_tenure_is_a_violation() {
    assert_eq!(broken(&kept_at(1200)), []);
    // The machine may have been busy.
    assert_eq!(broken(&kept_at(3000)), []);
    assert_eq!(broken(&kept_at(3100)), [Rule::Leaks]);
    let mut killed = kept_at(3100);
    killed.faults = vec![hits(Kind::WorkerKilled, 1, 1250, 1251)];
    assert_eq!(broken(&killed), []);
    let mut free = kept_at(3100);
    free.samples[0].left = 0;
    assert_eq!(broken(&free), []);
}
