//! The tests that the guide about testing shows.

mod failures;
mod once;

#[test]
fn guide_shows_these_files() {
    let guide = include_str!("../../../lock-runtime/src/guide/testing.md");
    for file in [include_str!("failures.rs"), include_str!("once.rs")] {
        assert!(guide.contains(&format!("```rust\n{file}```")), "{file}");
    }
}
