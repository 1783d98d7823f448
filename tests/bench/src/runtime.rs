//! The runtimes of callers.

use std::fmt;
use tokio::runtime::{Builder, Runtime};

#[derive(Clone, Copy, Debug)]
pub enum Flavor {
    /// Two threads, as on a small server.
    Threads,
    /// One thread, like each worker of actix-web.
    Current,
}

impl Flavor {
    pub fn by_name(name: &str) -> Option<Flavor> {
        let all = [Flavor::Threads, Flavor::Current];
        all.into_iter().find(|flavor| flavor.to_string() == name)
    }

    pub fn build(self) -> Runtime {
        let mut builder = match self {
            Flavor::Threads => Builder::new_multi_thread(),
            Flavor::Current => Builder::new_current_thread(),
        };
        builder.worker_threads(2).enable_all().build().unwrap()
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
