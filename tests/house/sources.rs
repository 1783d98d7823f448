//! The source files of a crate, words that CONTRIBUTING rules out since they hide who does what, and the
//! width of comments.

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

/// How wide a line of a comment may be.
const WIDTH: usize = 110;

#[test]
fn sources_say_who_does_what() {
    let wrong = lines_that(|line| {
        let mut words = line.split(|c: char| !c.is_alphabetic());
        words.any(|word| RULED_OUT.contains(&&*word.to_lowercase()))
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn comments_fit_beside_one_another() {
    let too_wide = lines_that(|line| {
        let comment = line.trim_start();
        let is_table = comment.trim_start_matches(['/', '!', ' ']).starts_with('|');
        comment.starts_with("//") && !is_table && line.chars().count() > WIDTH
    });
    assert!(too_wide.is_empty(), "{}", too_wide.join("\n"));
}

/// Returns those lines of the published sources, each after its place.
fn lines_that(are_meant: impl Fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for package in ["lock-runtime", "lock-macros", "lock-cli", "lock-admin"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(package);
        for file in files(&folder.join("src")) {
            let text = fs::read_to_string(&file).unwrap();
            for (line, number) in text.lines().zip(1..) {
                if are_meant(line) {
                    found.push(format!("{}:{number}: {line}", file.display()));
                }
            }
        }
    }
    found
}
