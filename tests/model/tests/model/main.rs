//! All states of small systems, with all rules of the protocol and without each.

mod exclusive;
mod mutations;
mod quorum;
mod shared;

use lock_model::search::search;
use lock_model::world::Setting;

/// Asserts that no state has a violation, and that the longest times are `most`: of a stall, an orphan, an
/// unaware holder, a ghost in the queue, a holder that has crashed or is paused, and an idle lock, if that is
/// given.
#[track_caller]
fn holds(what: &str, setting: &Setting, most: &[u8]) {
    let found = search(setting);
    if let Some((violation, trace)) = found.violation {
        panic!("{what}: {violation:?}\n{trace}");
    }
    let times = found.most.each_ref().map(|(time, _)| *time);
    println!("{what}: {} states, {times:?}", found.states);
    for ((time, trace), expected) in found.most.iter().zip(most) {
        assert_eq!(time, expected, "{what}: {times:?}\n{trace}");
    }
}
