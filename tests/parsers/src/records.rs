//! The records of stores.

#![no_main]

use libfuzzer_sys::fuzz_target;
use lock_runtime::fuzzing::records;

fuzz_target!(|bytes: &[u8]| records(bytes));
