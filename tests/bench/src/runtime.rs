//! The runtimes that callers have.

use std::fmt;
use std::future::Future;
use tokio::runtime::{Builder, Runtime};

#[derive(Clone, Copy, Debug)]
pub enum Flavor {
    /// Two threads, as on a small server.
    Threads,
    /// One thread, as actix-web's workers.
    Current,
}

impl Flavor {
    pub fn build(self) -> Runtime {
        let mut builder = match self {
            Flavor::Threads => Builder::new_multi_thread(),
            Flavor::Current => Builder::new_current_thread(),
        };
        builder.worker_threads(2).enable_all().build().unwrap()
    }

    /// Runs it in a task, as handlers are: what runs in `block_on` itself is woken across threads.
    pub fn run<F>(self, work: F) -> F::Output
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let runtime = self.build();
        let task = runtime.spawn(work);
        runtime.block_on(task).unwrap()
    }
}

impl fmt::Display for Flavor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Flavor::Threads => "2 threads",
            Flavor::Current => "1 thread",
        })
    }
}
