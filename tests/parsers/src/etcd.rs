//! The messages of etcd.

#![no_main]

use libfuzzer_sys::fuzz_target;
use lock_runtime::fuzzing::etcd;

fuzz_target!(|bytes: &[u8]| etcd(bytes));
