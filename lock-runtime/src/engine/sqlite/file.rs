//! The file that is used, and whether it still is the one at its path.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The file of a manager.
pub(crate) struct File {
    /// Absolute, since a process may change its working directory.
    pub(crate) path: PathBuf,
    /// Whether it is made if it is not there.
    pub(crate) create: bool,
    /// For how long a request waits while other processes write.
    pub(crate) patience: Duration,
}

/// The files of a database that is open: its own, the log of its last commits, and the index of that, which
/// the processes share as memory.
pub(crate) struct Files {
    paths: [PathBuf; 3],
    seen: [Inode; 3],
}

/// Device and number, which no other file has as long as this one is open. `None` if there is no such file.
type Inode = Option<(u64, u64)>;

impl Files {
    /// Returns the files of a database that was just opened.
    pub(crate) fn of(path: &Path) -> Files {
        // The others lie beside what a link leads to.
        let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let beside = |suffix: &str| {
            let mut path = OsString::from(&target);
            path.push(suffix);
            PathBuf::from(path)
        };
        let paths = [path.to_owned(), beside("-wal"), beside("-shm")];
        let seen = inodes(&paths);
        Files { paths, seen }
    }

    /// Returns `true` if another process would open other ones now.
    pub(crate) fn are_replaced(&self) -> bool {
        inodes(&self.paths) != self.seen
    }
}

#[cfg(unix)]
fn inodes(paths: &[PathBuf; 3]) -> [Inode; 3] {
    use std::os::unix::fs::MetadataExt;
    paths.each_ref().map(|path| {
        let found = path.metadata().ok()?;
        Some((found.dev(), found.ino()))
    })
}

/// There, a file that is open can't be deleted or replaced.
#[cfg(not(unix))]
fn inodes(_: &[PathBuf; 3]) -> [Inode; 3] {
    [None; 3]
}
