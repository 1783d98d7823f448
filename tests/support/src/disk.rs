//! A disk of another process that is full for a while. Linux only.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use crate::preload::{Library, readable_directory};

/// What a process writes to that was started on it, whatever the file.
pub struct Disk {
    library: Library,
    directory: TempDir,
}

impl Disk {
    pub fn with_room() -> Self {
        Self {
            library: Library::compiled("disk.c"),
            directory: readable_directory(),
        }
    }

    fn sign(&self) -> PathBuf {
        self.directory.path().join("is-full")
    }

    /// Makes all writes fail.
    pub fn fill(&self) {
        fs::write(self.sign(), "").unwrap();
    }

    pub fn make_room(&self) {
        fs::remove_file(self.sign()).unwrap();
    }

    /// Makes a command write to this disk.
    pub fn preload(&self, command: &mut Command) {
        command.env("LD_PRELOAD", self.library.path());
        command.env("DISK_IS_FULL", self.sign());
    }
}
