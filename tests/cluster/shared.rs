//! A cluster for all tests that leave it as it is.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::support::cluster::Cluster;

/// Started by the first who needs it, and killed by the last.
pub fn cluster() -> Arc<Cluster> {
    static CLUSTER: Mutex<Weak<Cluster>> = Mutex::new(Weak::new());
    let mut shared = CLUSTER.lock().unwrap_or_else(PoisonError::into_inner);
    shared.upgrade().unwrap_or_else(|| {
        let cluster = Arc::new(Cluster::start());
        *shared = Arc::downgrade(&cluster);
        cluster
    })
}
