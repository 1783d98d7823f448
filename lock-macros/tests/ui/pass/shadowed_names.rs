//! Items with the same names as parts of the expansion.

#![allow(non_camel_case_types, non_upper_case_globals, dead_code)]

use lock_runtime::{LockError, distributed_lock};

struct key;
struct guard;
struct error;
struct held;
struct lock;
struct Ok;
struct Err;
const value: u8 = 0;
static output: u8 = 0;

#[distributed_lock(key = "order:<id>", guard = lease)]
async fn ship(id: u64) -> Result<u64, LockError> {
    use std::result::Result::{Err as Bad, Ok as Good};
    if lease.key().is_empty() {
        return Bad(lease.lost().await);
    }
    Good(id)
}

/// Names declared in the body do not affect the return type.
#[distributed_lock(key = "order:<id>")]
async fn bill(id: u64) -> Result<State, LockError> {
    use State::*;
    enum State2 {
        Result,
    }
    use State2::*;
    let _ = Result;
    std::result::Result::Ok(if id == 0 { New } else { Old })
}

enum State {
    New,
    Old,
}

fn main() {
    let _ = (ship(1), bill(1));
}
