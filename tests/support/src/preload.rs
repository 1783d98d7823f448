//! Libraries that are preloaded into another process, whose machine then seems to be another one. Linux only.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A library, which is deleted with this.
pub struct Library(TempDir);

impl Library {
    /// Compiles a file of this folder.
    pub fn compiled(source: &str) -> Self {
        let library = Self(readable_directory());
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let compiled = Command::new("cc")
            .args(["-O2", "-shared", "-fPIC", "-o"])
            .args([&library.path(), &folder.join(source)])
            .status();
        assert!(compiled.expect("a C compiler is installed").success());
        library
    }

    pub fn path(&self) -> PathBuf {
        self.0.path().join("preloaded.so")
    }
}

/// A process of another user may read what is in it.
pub fn readable_directory() -> TempDir {
    let mut directory = tempfile::Builder::new();
    let directory = directory.permissions(Permissions::from_mode(0o755));
    directory.prefix("lock-preload-").tempdir().unwrap()
}
