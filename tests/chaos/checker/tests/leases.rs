//! Histories of leases that are believed in, and lost, while servers could have been asked.

use super::written::{MS, befalls, broken, fault, forgets, history};
use crate::checker::{Rule, check};
use crate::event::What;
use crate::fault::Kind;
use crate::history::History;
use crate::witness::Sample;

/// A server says at 500 that a lock which is held from 1 to 900 is locked for so long.
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
fn the_server_keeps_a_lease_as_long_as_its_holder_believes() {
    assert_eq!(broken(&sampled(810)), []);
    assert_eq!(check(&sampled(810)).believed, 1);
    assert_eq!(broken(&sampled(740)), [Rule::Belief]);
    assert_eq!(broken(&sampled(0)), [Rule::Belief]);
    // It may have forgotten it.
    let mut forgotten = sampled(0);
    forgotten.faults = vec![forgets(450, 451)];
    assert_eq!(broken(&forgotten), []);
    forgotten.faults = vec![forgets(550, 551)];
    assert_eq!(broken(&forgotten), [Rule::Belief]);
}

#[test]
fn a_sample_says_nothing_of_another_lock_or_time() {
    let mut other = sampled(0);
    other.samples[0].key = 1;
    assert_eq!(broken(&other), []);
    let mut after = sampled(0);
    (after.samples[0].from, after.samples[0].to) = (901 * MS, 902 * MS);
    assert_eq!(broken(&after), []);
    // It took too long to tell when it was so.
    let mut slow = sampled(0);
    slow.samples[0].to = 560 * MS;
    assert_eq!(broken(&slow), []);
}

/// A lease that would end at 2000 is lost then; the server was away until that time.
fn lost_after_an_outage(until: u64) -> History {
    let text = "
           0 1.1 asks
           1 1.1 begins 1999
        1990 1.1 steps 10
        2001 1.1 lost";
    let mut history = history(text);
    for event in &mut history.events {
        if let What::Asked { ttl, .. } = &mut event.what {
            *ttl = 30_000 * MS;
        }
    }
    history.faults = vec![fault(Kind::ServerKilled, 500, until)];
    history
}

#[test]
fn a_lease_is_lost_though_there_was_time_to_renew_it() {
    assert_eq!(broken(&lost_after_an_outage(1500)), []);
    assert_eq!(broken(&lost_after_an_outage(800)), [Rule::Loss]);
    // Its own process did not run.
    let mut stopped = lost_after_an_outage(800);
    let stop = befalls(Kind::WorkerStopped, 1, 900, 1900);
    stopped.faults.push(stop);
    assert_eq!(broken(&stopped), []);
    // Or the server had forgotten it.
    let mut forgotten = lost_after_an_outage(800);
    forgotten.faults.push(forgets(700, 701));
    assert_eq!(broken(&forgotten), []);
}

#[test]
fn killed_connections_are_no_cause() {
    let mut killed = lost_after_an_outage(501);
    let kill = |n: u64| fault(Kind::ClientsKilled, 100 + n * 20, 100 + n * 20);
    killed.faults = (0..90).map(kill).collect();
    assert_eq!(broken(&killed), [Rule::Loss]);
}
