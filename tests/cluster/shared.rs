//! A cluster shared by all tests that do not change it.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use lock_test_support::cluster::Cluster;

/// Returns the shared cluster. The first user starts it, and the last one kills it.
pub fn cluster() -> Arc<Cluster> {
    static CLUSTER: Mutex<Weak<Cluster>> = Mutex::new(Weak::new());
    let mut shared = CLUSTER.lock().unwrap_or_else(PoisonError::into_inner);
    shared.upgrade().unwrap_or_else(|| {
        let cluster = Arc::new(Cluster::start());
        *shared = Arc::downgrade(&cluster);
        cluster
    })
}
