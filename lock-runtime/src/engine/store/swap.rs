//! A swap that another thread or task carries out.

use crate::own_store::{Swapped, Version};

/// Replaces the record of that version.
pub(crate) struct Swap {
    pub(crate) name: String,
    pub(crate) expected: Option<Version>,
    pub(crate) record: Option<Vec<u8>>,
}

impl Swap {
    pub(crate) fn new(name: &str, expected: Option<&Version>, record: Option<&[u8]>) -> Swap {
        Swap {
            name: name.to_owned(),
            expected: expected.cloned(),
            record: record.map(<[u8]>::to_vec),
        }
    }

    /// Returns what it came to, if it is done: the version of a record is its stamp.
    pub(crate) fn done(&self) -> Swapped {
        Swapped::Done(Version::stamp_of(
            self.record.as_deref().unwrap_or_default(),
        ))
    }
}
