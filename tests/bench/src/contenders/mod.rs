//! Those who are measured, each in a file of its own.

mod ours;
mod raw;
mod rslock;

use crate::workload::{Sample, Workload, measure};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// The lease of every lock.
const TTL: Duration = Duration::from_secs(30);

/// A way to take a lock. Whatever goes wrong panics: a number would mean nothing then.
pub trait Contender: Sized + Send + Sync + 'static {
    const NAME: &'static str;
    type Hold: Send;

    fn connect(url: &str) -> impl Future<Output = Self> + Send;
    fn acquire(&self, key: &str) -> impl Future<Output = Self::Hold> + Send;
    fn release(&self, hold: Self::Hold) -> impl Future<Output = ()> + Send;
}

/// The first one is what the others are compared with.
pub async fn all(url: &str) -> Vec<Box<dyn Entrant>> {
    vec![
        enter::<raw::Raw>(url).await,
        enter::<ours::Ours>(url).await,
        enter::<rslock::Rslock>(url).await,
    ]
}

async fn enter<C: Contender>(url: &str) -> Box<dyn Entrant> {
    Box::new(Arc::new(C::connect(url).await))
}

/// A contender whose type doesn't matter any more.
pub trait Entrant {
    fn name(&self) -> &'static str;
    fn run(
        &self,
        workload: Workload,
        time: Duration,
    ) -> Pin<Box<dyn Future<Output = Sample> + Send + '_>>;
}

impl<C: Contender> Entrant for Arc<C> {
    fn name(&self) -> &'static str {
        C::NAME
    }

    fn run(
        &self,
        workload: Workload,
        time: Duration,
    ) -> Pin<Box<dyn Future<Output = Sample> + Send + '_>> {
        Box::pin(measure(self, workload, time))
    }
}
