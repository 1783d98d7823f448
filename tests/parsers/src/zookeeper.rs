//! The messages of ZooKeeper.

#![no_main]

use libfuzzer_sys::fuzz_target;
use lock_runtime::fuzzing::zookeeper;

fuzz_target!(|bytes: &[u8]| zookeeper(bytes));
