//! Where the witness looks at the locks.

use std::path::PathBuf;

/// The server that has all locks.
pub enum Source {
    /// Its socket.
    Redis(PathBuf),
    /// The directory of its socket, and its port.
    Postgres { directory: PathBuf, port: u16 },
}
