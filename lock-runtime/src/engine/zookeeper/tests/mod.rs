//! What people see and do from outside, on a real server.

mod asks;
mod names;
mod recalls;
mod reports;
mod rights;
mod take;

use crate::engine::tests::peer::{LONG, Peer};
use crate::engine::tests::registry::{Case, SHARED, cases, run};
use crate::engine::tests::space::Space;
use crate::engine::tests::topology::Topology;
use crate::util::clock::Clock;
use lock_test_support::proxy::Proxy;
use lock_test_support::servers::Network;
use lock_test_support::zookeeper::ZooKeeper;
use std::time::Duration;

const OWN: &[(&str, Case)] = cases! {
    asks:
        listener_goes_on_in_its_next_session
        garbage_asks_nothing_and_breaks_nothing
        sessions_end_with_the_engine;
    names:
        nodes_without_a_claim_are_no_locks
        each_prefix_has_its_own_directory
        names_are_found_among_many_that_are_free;
    recalls:
        recall_is_repeated_while_another_process_waits
        each_holder_sees_who_comes_after_its_lock_was_taken
        claim_of_another_client_recalls_a_lock
        lock_whose_line_may_not_be_read_is_not_kept;
    reports:
        report_is_stored_again_in_the_next_session
        any_report_is_read;
    rights:
        operator_needs_the_credentials_of_the_services
        missing_rights_leave_locks_working;
    take:
        claims_of_other_clients_are_taken_by_their_names
        taken_claim_does_not_enter_in_the_next_session;
};

#[test]
fn operations() {
    let topology = Topology {
        waiters_hear: false,
        refuses_far: true,
        has_lines: true,
        longest_recalled: 2048,
        ..Topology::of("ZooKeeper", ZooKeeper::start())
    };
    run(topology, &[SHARED, OWN]);
}

/// How long the sessions of a process with short ones live, once the server hears nothing of them.
const SHORT: Duration = Duration::from_secs(1);

impl Space {
    /// Returns a process whose network can fail and whose sessions are short, and which soon finds both.
    async fn distant_peer_with_short_sessions(&self) -> (Network, Peer) {
        let (network, config) = self.over_a_network(&self.prefix).unwrap();
        let config = config.ttl(SHORT).connect_timeout(LONG);
        let config = config.command_timeout(LONG / 8);
        (network, Peer::with(config, Clock::System).await)
    }

    /// Returns the path of a node, or of the directory.
    fn path(&self, node: &str) -> String {
        let directory = self.prefix.trim_end_matches(':');
        match node {
            "" => format!("/{directory}"),
            node => format!("/{directory}/{node}"),
        }
    }

    fn children(&self, node: &str) -> Vec<String> {
        let server = self.servers::<ZooKeeper>();
        server.client().children(&self.path(node))
    }
}

fn black_hole(network: &Network) {
    network.each(Proxy::black_hole);
}

fn heal(network: &Network) {
    network.each(Proxy::heal);
}
