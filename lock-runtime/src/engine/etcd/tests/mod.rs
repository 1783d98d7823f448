//! Tests on a server whose replies are scripted, and of operations on real servers.

mod asks;
mod batches;
mod checks;
mod leases;
mod logins;
mod names;
mod reports;
mod rights;
mod scripted_server;
mod take;
mod watches;

use crate::engine::tests::peer::Peer;
use crate::engine::tests::registry::{Case, SHARED, cases, run};
use crate::engine::tests::topology::Topology;
use lock_test_support::etcd::Etcd;
use lock_test_support::servers::Network;

const OWN: &[(&str, Case)] = cases! {
    asks:
        an_ask_reaches_every_process_that_is_connected;
    names:
        keys_without_a_claim_are_no_locks;
    reports:
        a_report_lives_as_long_as_its_process_is_connected
        nonsense_in_the_place_of_reports_is_skipped;
    take:
        a_claim_that_is_taken_while_it_is_cut_off_does_not_return
        a_lock_is_taken_from_another_client_that_holds_it;
};

#[test]
fn operations() {
    let topology = Topology {
        refuses_far: true,
        has_lines: true,
        longest_recalled: 2048,
        ..Topology::of("etcd", Etcd::start())
    };
    run(topology, &[SHARED, OWN]);
}

impl Peer {
    /// Breaks the connection, and waits for the next one.
    async fn connect_again(&mut self, network: &Network) {
        while self.events.try_recv().is_ok() {}
        network.proxies[0].cut();
        network.proxies[0].heal();
        self.until_resubscribed().await;
    }
}
