//! The runtimes that bodies run on.

use std::future::Future;

use tokio::runtime::Builder;

#[derive(Clone, Copy, Debug)]
pub enum Runtime {
    MultiThread,
    CurrentThread,
    Actix,
}

impl Runtime {
    pub const ALL: [Self; 3] = [Self::MultiThread, Self::CurrentThread, Self::Actix];

    /// Runs `task` as a task on a new runtime of this kind.
    pub fn run<T: Send + 'static>(self, task: impl Future<Output = T> + Send + 'static) -> T {
        let mut builder = match self {
            Self::MultiThread => Builder::new_multi_thread(),
            Self::CurrentThread => Builder::new_current_thread(),
            Self::Actix => {
                let system = actix_web::rt::System::new();
                return system.block_on(async { actix_web::rt::spawn(task).await.unwrap() });
            }
        };
        let runtime = builder.worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(runtime.spawn(task)).unwrap()
    }
}
