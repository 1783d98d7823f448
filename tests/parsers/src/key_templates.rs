//! The templates of keys in the attribute.

#![no_main]
// The attribute uses more of these files.
#![allow(dead_code)]

#[path = "../../../lock-macros/src/fuzzing.rs"]
mod fuzzing;
#[path = "../../../lock-macros/src/key.rs"]
mod key;
#[path = "../../../lock-macros/src/suggest.rs"]
mod suggest;
#[path = "../../../lock-macros/src/tokens.rs"]
mod tokens;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| fuzzing::key_templates(bytes));
