//! The replies of Redis.

#![no_main]

use libfuzzer_sys::fuzz_target;
use lock_runtime::fuzzing::redis;

fuzz_target!(|bytes: &[u8]| redis(bytes));
