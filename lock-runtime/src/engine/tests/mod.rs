//! What people see of the locks and do to them, which no public call does as it is done here: each case is
//! written once and runs on all engines, and each engine adds its own. `LOCK_CASES=take::` chooses cases by
//! their names.

mod asks;
mod names;
pub(crate) mod peer;
mod recalls;
pub(crate) mod registry;
mod reports;
pub(crate) mod space;
mod take;
pub(crate) mod topology;

use crate::engine::tests::registry::{SHARED, run};
use crate::engine::tests::topology::Topology;

#[test]
fn operations_in_memory() {
    run(Topology::memory(), &[SHARED]);
}
