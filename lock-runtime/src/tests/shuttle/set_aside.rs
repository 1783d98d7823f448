//! Calls that are polled late, or no more: the lock that they are offered passes on.

use crate::engine::timeouts::GRANT_TTL;
use crate::tests::shuttle::explore::{explore, join_all, pause};
use crate::tests::shuttle::process::Process;
use crate::tests::shuttle::server::Server;
use crate::util::shuttle::virtual_time;
use shuttle::future::{JoinHandle, spawn, yield_now};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// The time of an offer, and that in which a waiter that the server considers dead polls.
const PATIENCE: Duration = GRANT_TTL
    .saturating_mul(2)
    .saturating_add(Duration::from_millis(200));

/// Spawns a task that polls a call a few times, and then no more until the others have ended.
fn spawn_set_aside(process: &Arc<Process>, others: Vec<JoinHandle<()>>) -> JoinHandle<()> {
    let process = process.clone();
    spawn(async move {
        let mut call = Box::pin(process.take("a"));
        for _ in 0..4 {
            let polled = poll_fn(|context| Poll::Ready(call.as_mut().poll(context)));
            if let Poll::Ready(held) = polled.await {
                held.unwrap().end();
                return join_all(others).await;
            }
            yield_now().await;
        }
        join_all(others).await;
        let held = call.await.unwrap();
        held.work().await;
        held.end();
    })
}

#[test]
fn a_lock_passes_a_local_waiter_that_is_not_polled() {
    explore(PATIENCE, || async {
        let server = Server::start();
        let process = server.process();
        let holder = process.take("a").await.unwrap();
        let ends = spawn(async move { holder.end() });
        let others = vec![ends, process.spawn_holder("a")];
        join_all([spawn_set_aside(&process, others)]).await;
        process.wait_idle().await;
        server.end([process]).await;
        server.assert_empty();
    });
}

#[test]
fn a_lock_passes_a_process_whose_waiter_is_not_polled() {
    explore(PATIENCE, || async {
        let server = Server::start();
        let (process, other) = (server.process(), server.process());
        let holder = other.take("a").await.unwrap();
        let ends = spawn(async move { holder.end() });
        let others = vec![ends, other.spawn_holder("a")];
        join_all([spawn_set_aside(&process, others)]).await;
        server.end([process, other]).await;
        server.assert_empty();
    });
}

/// The callers are polled, and the watchdog withdraws their offers nevertheless: at any time before, while
/// and after they pick the lock up.
#[test]
fn a_lock_is_picked_up_as_its_offer_is_withdrawn() {
    explore(PATIENCE, || async {
        let server = Server::start();
        let (process, other) = (server.process(), server.process());
        let holder = process.take("a").await.unwrap();
        let works = [&process, &process, &other].map(|process| process.spawn_holder("a"));
        let passes = spawn(async {
            for _ in 0..3 {
                virtual_time::advance(GRANT_TTL);
                pause().await;
            }
        });
        let ends = spawn(async move { holder.end() });
        join_all(works.into_iter().chain([passes, ends])).await;
        server.end([process, other]).await;
        server.assert_empty();
    });
}
