//! What the compiler says about a wrong annotation, and what it must not complain about.
//!
//! `TRYBUILD=overwrite cargo test -p lock-macros --test ui` renews the expected texts.

#[test]
fn diagnostics() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/ui/pass/*.rs");
    cases.compile_fail("tests/ui/fail/*.rs");
}
