//! The source files of a crate.

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
