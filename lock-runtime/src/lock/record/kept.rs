//! The records of a lock while its process keeps it.

use crate::metrics::Active;

/// A lock that is kept, until this is dropped.
pub(crate) struct KeptRecord(Active);

impl KeptRecord {
    pub(crate) fn begin() -> KeptRecord {
        KeptRecord(Active::kept())
    }
}

impl Drop for KeptRecord {
    fn drop(&mut self) {
        self.0.end();
    }
}
