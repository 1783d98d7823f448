//! URLs.

#![no_main]

use libfuzzer_sys::fuzz_target;
use lock_runtime::fuzzing::urls;

fuzz_target!(|bytes: &[u8]| urls(bytes));
