//! The messages of MySQL.

#![no_main]

use libfuzzer_sys::fuzz_target;
use lock_runtime::fuzzing::mysql;

fuzz_target!(|bytes: &[u8]| mysql(bytes));
