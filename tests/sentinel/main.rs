//! A master found through Sentinels, and followed from one failover to the next.

mod access;
mod demoted;
mod failover;
mod replicas;
mod sentinels;
#[path = "../support/mod.rs"]
mod support;

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}
