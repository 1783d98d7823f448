//! A master found through Sentinels, and followed from one failover to the next.

#[path = "../support/mod.rs"]
mod support;

use support::sentinel::Sentinels;

#[test]
fn a_replica_follows_its_master() {
    let mut all = Sentinels::start();
    let old = all.kill_master();
    all.until_failed_over(old);
    all.restart(old);
    all.until_settled();
    let before = all.master();
    assert_ne!(all.failover(), before);
}
