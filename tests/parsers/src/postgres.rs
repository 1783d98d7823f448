//! The messages of other clients on PostgreSQL.

#![no_main]

use libfuzzer_sys::fuzz_target;
use lock_runtime::fuzzing::postgres;

fuzz_target!(|bytes: &[u8]| postgres(bytes));
