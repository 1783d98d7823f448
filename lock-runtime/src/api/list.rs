//! Listing locks.

use crate::error::LockError;
use crate::lock::inner::Manager;
use crate::lock::list::list;
use crate::lock_info::LockInfo;
use crate::process_info::ProcessInfo;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;

/// The locks in use that are to be listed: see [`LockManager::list`](crate::LockManager::list).
#[must_use = "nothing happens before it is awaited"]
pub struct List {
    inner: Arc<Manager>,
    prefix: String,
    most: usize,
    scan: bool,
}

impl List {
    pub(crate) fn new(inner: Arc<Manager>, prefix: String) -> List {
        List {
            inner,
            prefix,
            most: 1000,
            scan: false,
        }
    }

    /// Sets the greatest number of locks. The default is 1000.
    ///
    /// On Redis, where processes [report](crate::Config::report) locks that may have ended since, no more
    /// than 4096 others are looked at, first those of the latest reports.
    pub fn limit(mut self, most: usize) -> Self {
        self.most = most;
        self
    }

    /// On Redis, also finds locks that no process has reported, by reading the names of **all keys of the
    /// server** in many small requests. The other servers find the locks without that.
    pub fn scan(mut self) -> Self {
        self.scan = true;
        self
    }

    /// Lists the locks, and returns all [processes](crate::LockManager::processes), too: the reports are read
    /// once.
    ///
    /// ```
    /// # use lock_runtime::{LockError, LockManager};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), LockError> {
    /// # let locks = LockManager::connect("memory://").await?;
    /// let (found, processes) = locks.list("order:").with_processes().await;
    /// println!("{} locks, {} processes", found?.len(), processes?.len());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn with_processes(
        self,
    ) -> (
        Result<Vec<LockInfo>, LockError>,
        Result<Vec<ProcessInfo>, LockError>,
    ) {
        let List {
            inner,
            prefix,
            most,
            scan,
        } = self;
        list(&inner.context, &prefix, most, scan).await
    }
}

impl IntoFuture for List {
    type Output = Result<Vec<LockInfo>, LockError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.with_processes().await.0 })
    }
}
