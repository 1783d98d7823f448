//! The records of the guards that own a hold.

use crate::lock::record::guard::GuardRecord;
use std::sync::Arc;

/// Those that report a loss. Most holds have one guard, for which nothing is allocated here.
#[derive(Clone, Default)]
pub(crate) struct GuardRecords {
    one: Option<Arc<GuardRecord>>,
    others: Vec<Arc<GuardRecord>>,
}

impl GuardRecords {
    pub(crate) fn add(&mut self, record: Arc<GuardRecord>) {
        match self.one {
            None => self.one = Some(record),
            Some(_) => self.others.push(record),
        }
    }

    pub(crate) fn remove(&mut self, record: &Arc<GuardRecord>) {
        let is_other = |known: &Arc<GuardRecord>| !Arc::ptr_eq(known, record);
        self.one = self.one.take().filter(is_other);
        self.others.retain(is_other);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<GuardRecord>> {
        self.one.iter().chain(&self.others)
    }
}
