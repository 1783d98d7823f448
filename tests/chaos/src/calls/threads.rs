//! Calls on threads and runtimes of their own.

use std::cell::RefCell;
use std::thread;
use std::time::Duration;

use lock_runtime::LockGuard;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

use super::BLOCK;
use super::body::{Call, CallError};
use lock_test_support::rng::Rng;

/// Drops the guard at the end of `block_on`, after which nothing drives the runtime. The runtime is dropped
/// at once, or after a while.
pub async fn own_runtime(call: Call, mut rng: Rng) -> Result<(), CallError> {
    let (idles, with_io) = (rng.one_in(2), rng.one_in(2));
    on_thread(move |send| {
        let runtime = new_runtime(with_io);
        send(runtime.block_on(super::functions::by_hand(&call, true)));
        thread::sleep(if idles { BLOCK } else { Duration::ZERO });
    })
    .await
}

thread_local! {
    static LEFT: RefCell<Option<LockGuard>> = const { RefCell::new(None) };
}

/// Drops the guard with the thread, before its runtime's own thread-locals or after them.
pub async fn thread_local(call: Call, mut rng: Rng) -> Result<(), CallError> {
    let (first, with_io) = (rng.one_in(2), rng.one_in(2));
    on_thread(move |send| {
        if first {
            LEFT.with(|left| drop(left.take()));
        }
        let runtime = new_runtime(with_io);
        let made = runtime.block_on(async {
            let guard = super::functions::lock(&call).acquire().await?;
            let body = call.body(&guard).await;
            LEFT.set(Some(guard));
            body
        });
        drop(runtime);
        send(made);
    })
    .await
}

fn new_runtime(with_io: bool) -> Runtime {
    let mut builder = Builder::new_current_thread();
    if with_io {
        builder.enable_io();
    }
    builder.enable_time().build().unwrap()
}

/// Runs `work` on a thread of its own, which may continue after it has reported the result.
async fn on_thread<T: Send + 'static>(work: impl FnOnce(&mut dyn FnMut(T)) + Send + 'static) -> T {
    let (sender, reported) = oneshot::channel();
    let mut sender = Some(sender);
    let work = move || {
        work(&mut |made| {
            let _ = sender
                .take()
                .expect("the result is reported once")
                .send(made);
        });
    };
    // Dropping the runtime then waits for the thread.
    tokio::task::spawn_blocking(|| thread::spawn(work).join());
    match reported.await {
        Ok(made) => made,
        // The runtime is shutting down and starts no blocking task any more.
        Err(_) => std::future::pending().await,
    }
}
