//! What people see of the locks and do to them, on a real server, and what the table promises as a store.

mod bells;
mod replies;

use crate::engine::tests::registry::{Case, SHARED, cases, run};
use crate::engine::tests::topology::Topology;
use lock_test_support::mariadb::MariaDb;

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

#[cfg(feature = "testing")]
#[tokio::test]
async fn table_keeps_the_promises_of_a_store() {
    use crate::config::Config;
    use crate::engine::mysql::address::Address;
    use crate::engine::mysql::open::start;
    use crate::engine::timeouts::Timeouts;
    use crate::testing::check_store;
    use crate::util::io_thread::IoThread;
    use std::sync::Arc;

    let server = MariaDb::start();
    let config = Config::new(server.url());
    let address = Address::parse(&server.url(), &config).unwrap();
    let timeouts = Timeouts::of(&config);
    let store = start(
        IoThread::start().unwrap(),
        address.into(),
        &timeouts,
        &(Arc::new(drop) as _),
    );
    timeouts.opened();
    check_store(&store).await.unwrap();
}
