//! What the errors of SQLite mean for a request, and what a person can do.

use crate::engine::sqlite::file::File;
use crate::own_store::StoreError;
use rusqlite::{Error, ErrorCode};
use std::io::ErrorKind;
use std::path::Path;

/// Returns `true` if other processes write, or read what has to be changed.
pub(crate) fn is_busy(error: &Error) -> bool {
    let code = error.sqlite_error_code();
    matches!(
        code,
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
    )
}

/// Returns `true` if the next request may succeed on the same connection.
pub(crate) fn may_pass(error: &Error) -> bool {
    is_busy(error) || error.sqlite_error_code() == Some(ErrorCode::DiskFull)
}

impl File {
    /// Returns the error of a request of which nothing was carried out.
    pub(crate) fn refused(&self, error: &Error) -> StoreError {
        let path = self.path.display();
        match error.sqlite_error_code() {
            _ if is_busy(error) => StoreError::not_done(format!(
                "other processes have been writing to `{path}` for {:?}; look for one that is stopped",
                self.patience
            )),
            Some(ErrorCode::DiskFull) => {
                StoreError::not_done(format!("the disk of `{path}` is full; make room"))
            }
            Some(
                ErrorCode::ReadOnly
                | ErrorCode::PermissionDenied
                | ErrorCode::AuthorizationForStatementDenied,
            ) => StoreError::denied(format!(
                "`{path}` is read-only for this process; let its user write to the file and its directory"
            )),
            Some(ErrorCode::CannotOpen) => self.not_opened(error),
            Some(ErrorCode::NotADatabase) => StoreError::denied(format!(
                "`{path}` is no database of SQLite; name another file"
            )),
            Some(ErrorCode::DatabaseCorrupt) => StoreError::denied(format!(
                "`{path}` is damaged: {error}; stop its processes, and delete it with `-wal` and `-shm`"
            )),
            _ => StoreError::not_done(format!("`{path}` can't be read or written: {error}")),
        }
    }

    /// Returns the error of a commit, which may have been carried out unless SQLite has rolled it back before
    /// it was written.
    pub(crate) fn not_committed(&self, error: &Error) -> StoreError {
        match may_pass(error) {
            true => self.refused(error),
            false => StoreError::unknown(format!(
                "`{}` may have been written: {error}; check its disk",
                self.path.display()
            )),
        }
    }

    /// SQLite does not say why.
    fn not_opened(&self, error: &Error) -> StoreError {
        let path = self.path.display();
        let directory = self.path.parent().unwrap_or(&self.path);
        let in_directory = directory.display();
        let is_allowed = may_write(directory) && may_write(&self.path);
        let reason = match self.path.metadata() {
            _ if !directory.is_dir() => {
                format!("the directory `{in_directory}` is not there; create it")
            }
            Ok(found) if found.is_dir() => format!("`{path}` is a directory; name a file in it"),
            Err(error) if error.kind() == ErrorKind::NotFound && !self.create => {
                format!("`{path}` is not there: no service has used locks in it; check the URL")
            }
            // Such as that this process has too many files open.
            Ok(_) if is_allowed => {
                return StoreError::not_done(format!("`{path}` can't be opened: {error}"));
            }
            _ => format!(
                "this user may not use `{path}`; let it read and write the file and `{in_directory}`"
            ),
        };
        StoreError::denied(reason)
    }
}

/// Opens nothing: a process that closes any file loses its locks on it.
#[cfg(unix)]
fn may_write(path: &Path) -> bool {
    use rustix::fs::{Access, access};
    access(path, Access::READ_OK | Access::WRITE_OK).is_ok()
}

#[cfg(not(unix))]
fn may_write(_: &Path) -> bool {
    true
}
