//! The source files of a crate, and words that CONTRIBUTING rules out since they hide who does what.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns all Rust files in a folder and in those within.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let found = paths.flat_map(|path| match path.is_dir() {
        true => files(&path),
        false => vec![path],
    });
    found
        .filter(|path| path.extension().is_some_and(|ext| ext == "rs"))
        .collect()
}

const RULED_OUT: [&str; 7] = [
    "somebody",
    "nobody",
    "everybody",
    "anybody",
    "tell",
    "tells",
    "told",
];

#[test]
fn sources_say_who_does_what() {
    let mut found = Vec::new();
    for package in ["lock-runtime", "lock-macros", "lock-cli", "lock-admin"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(package);
        for file in files(&folder.join("src")) {
            let text = fs::read_to_string(&file).unwrap();
            for (line, number) in text.lines().zip(1..) {
                let mut words = line.split(|c: char| !c.is_alphabetic());
                if words.any(|word| RULED_OUT.contains(&&*word.to_lowercase())) {
                    found.push(format!("{}:{number}: {line}", file.display()));
                }
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}
