//! What people see of the locks and do to them, on real servers.

mod asks;
mod names;
mod quorum;
mod reports;
mod take;

use crate::config::Config;
use crate::engine::tests::peer::Peer;
use crate::engine::tests::registry::{Case, SHARED, cases, run};
use crate::engine::tests::space::Space;
use crate::engine::tests::topology::Topology;
use lock_test_support::cluster::Cluster;
use lock_test_support::permissions;
use lock_test_support::server::Server;
use std::sync::Arc;

const ON_A_SERVER: &[(&str, Case)] = cases! {
    asks:
        locks_are_granted_without_the_right_to_listen;
    names:
        names_are_found_among_many_other_keys
        a_prefix_with_wildcards_finds_only_its_own_locks
        listing_names_its_missing_right;
    reports:
        reports_of_more_processes_than_one_request_reads
        reports_expire_one_by_one_and_all_together
        a_hostile_report_harms_no_other
        reading_needs_no_right_to_write;
    take:
        locks_of_other_clients_are_taken_by_their_text
        a_key_of_a_foreign_type_is_left_alone
        nothing_is_taken_if_no_number_can_be_drawn;
};

const ON_A_CLUSTER: &[(&str, Case)] = cases! {
    take:
        locks_of_other_clients_are_taken_in_a_cluster;
};

const AT_A_QUORUM: &[(&str, Case)] = cases! {
    quorum:
        a_taken_lock_is_free_at_all_members;
};

#[test]
fn operations_on_a_server() {
    let servers = vec![Server::start()];
    run(Topology::of("Redis", servers), &[SHARED, ON_A_SERVER]);
}

#[test]
fn operations_on_a_cluster() {
    let cluster = Cluster::plan().without_replicas().start();
    run(
        Topology::of("a Redis Cluster", cluster),
        &[SHARED, ON_A_CLUSTER],
    );
}

#[test]
fn operations_at_a_quorum() {
    let topology = Topology {
        is_quorum: true,
        takes_waiters: false,
        ..Topology::of("a quorum", quorum::three())
    };
    run(topology, &[SHARED, AT_A_QUORUM]);
}

impl Space {
    fn server(&self) -> ServerOf {
        ServerOf(self.servers())
    }

    /// Gives the user of this part those rights, beside the name and the password.
    fn grant(&self, rules: &str) {
        let user = format!("ACL SETUSER {} {rules}", self.user());
        self.server().query::<()>(&user);
    }

    /// Gives the user of this part the rights that locks need, and access to these channels.
    fn grant_locks(&self, channels: &str) {
        let [commands, _] = permissions::commands();
        let keys = format!("~{}*", self.prefix);
        self.grant(&format!("reset on >s3cret {keys} {channels} {commands}"));
    }

    fn user(&self) -> String {
        self.prefix.replace(':', "-")
    }

    async fn peer_of_user(&self) -> Peer {
        let config: Config = self.config();
        Peer::connect(config.credentials(self.user(), "s3cret")).await
    }
}

/// The only server of a topology.
struct ServerOf(Arc<Vec<Server>>);

impl std::ops::Deref for ServerOf {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.0[0]
    }
}
