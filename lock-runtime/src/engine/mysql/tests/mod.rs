//! What people see of the locks and do to them, on a real server, and what the table promises as a store.

mod bells;
mod replies;
mod rows;

use crate::config::Config;
use crate::engine::mysql::address::Address;
use crate::engine::mysql::open::start;
use crate::engine::mysql::store::MySqlStore;
use crate::engine::tests::peer::LONG;
use crate::engine::tests::registry::{Case, SHARED, cases, run};
use crate::engine::tests::topology::Topology;
use crate::engine::timeouts::Timeouts;
use crate::util::io_thread::IoThread;
use lock_test_support::mariadb::MariaDb;
use std::sync::Arc;

const OWN: &[(&str, Case)] = cases! {
    bells:
        first_waiter_of_another_process_rings_for_the_holder
        release_rings_for_the_next_process;
};

#[test]
fn operations() {
    let topology = Topology {
        waiters_hear: false,
        ..Topology::of("MariaDB", MariaDb::start())
    };
    run(topology, &[SHARED, OWN]);
}

/// Returns a store with a connection of its own.
fn store(server: &MariaDb) -> MySqlStore {
    let config = Config::new(server.url());
    let config = config.connect_timeout(LONG).command_timeout(LONG);
    let address = Address::parse(&server.url(), &config).unwrap();
    let timeouts = Timeouts::of(&config);
    let handler = Arc::new(drop) as _;
    let store = start(
        IoThread::start().unwrap(),
        address.into(),
        &timeouts,
        &handler,
    );
    timeouts.opened();
    store
}

#[cfg(feature = "testing")]
#[tokio::test]
async fn table_keeps_the_promises_of_a_store() {
    let server = MariaDb::start();
    crate::testing::check_store(&store(&server)).await.unwrap();
}
