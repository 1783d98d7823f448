//! The check for calls that would wait for their own body: its cost for each poll of a body, and its
//! requests.

use crate::Bench;
use crate::numbers::median;
use crate::report::Table;
use crate::runtime::Flavor;
use crate::server::Server;
use lock_runtime::{Lock, LockError, LockManager, OnLost};
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::hint::black_box;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

const CALLS: u32 = 1000;

pub fn nested(bench: &mut Bench) {
    let runtime = Flavor::Current.build();
    let locks = runtime.block_on(LockManager::connect(bench.server.url()));
    let locks = locks.unwrap();
    let polls = if bench.quick { 100_000 } else { 1_000_000 };
    let (mut bare, mut scope, mut all) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..bench.rounds(15) {
        // A body that continues without its lease is not asked for a loss: what is left is the check.
        let unasked = locks.lock("polled").on_lost(OnLost::Continue);
        bare.push(runtime.block_on(bare_poll(polls)));
        scope.push(runtime.block_on(poll_under(unasked, polls)));
        all.push(runtime.block_on(poll_under(locks.lock("polled"), polls)));
    }
    let more = |times: &[f64]| median(times.iter().zip(&bare).map(|(time, bare)| time - bare));
    let mut table = Table::new("one poll of a body", &["ns", "more ns"]);
    for (name, times) in [
        ("bare", &bare),
        ("under a lock, on_lost = continue", &scope),
        ("under a lock", &all),
    ] {
        let cells = vec![
            format!("{:.1}", median(times.iter().copied())),
            format!("{:.1}", more(times)),
        ];
        table.row(name, cells);
    }
    println!();
    table.print();
    let more = more(&scope);
    bench.report.target(
        "nested-call check, with all else that a lock adds to a poll",
        format!("{more:.1} ns"),
        "≤ 10 ns",
        more <= 10.0,
    );
    let (bytes, nanos) = runtime.block_on(nested_calls(&bench.server, &locks));
    bench.report.target(
        &format!("{CALLS} nested calls that fail, and {CALLS} that run, {nanos:.0} ns each"),
        format!("{bytes} bytes sent"),
        "0 bytes sent",
        bytes == 0,
    );
    bench.server.clear();
}

/// Returns the nanoseconds of one poll of a body without a lock.
async fn bare_poll(polls: u32) -> f64 {
    poll_repeatedly(pin!(poll_fn(|_| Poll::<()>::Pending)), polls)
}

/// Returns the nanoseconds of one poll of a body under the lock.
async fn poll_under(lock: Lock, polls: u32) -> f64 {
    let begun = Cell::new(false);
    let body = poll_fn(|_| {
        begun.set(true);
        Poll::<()>::Pending
    });
    let mut call = pin!(lock.run(async |_| body.await));
    poll_fn(|context| {
        let _ = call.as_mut().poll(context);
        match begun.get() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })
    .await;
    poll_repeatedly(call, polls)
}

fn poll_repeatedly<T>(mut future: Pin<&mut dyn Future<Output = T>>, polls: u32) -> f64 {
    let mut context = Context::from_waker(Waker::noop());
    let start = Instant::now();
    for _ in 0..polls {
        let polled = black_box(future.as_mut()).poll(&mut context);
        assert!(black_box(polled).is_pending());
    }
    start.elapsed().as_secs_f64() * 1e9 / f64::from(polls)
}

/// Returns the bytes that nested calls sent, and the nanoseconds of each call.
async fn nested_calls(server: &Server, locks: &LockManager) -> (u64, f64) {
    let outer = || locks.lock("nested");
    let called = outer().run(async |_| {
        let before = server.received();
        let of_request = server.received() - before;
        let start = Instant::now();
        for _ in 0..CALLS {
            let refused = outer().acquire().await;
            assert!(matches!(refused, Err(LockError::WouldDeadlock { .. })));
            outer().reentrant(true).run(async |_| ()).await.unwrap();
        }
        let nanos = start.elapsed().as_secs_f64() * 1e9 / f64::from(2 * CALLS);
        (server.received() - before - 2 * of_request, nanos)
    });
    called.await.unwrap()
}
