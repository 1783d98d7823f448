//! Lists the shared cases, and runs cases concurrently, each in a part of the servers.

use crate::engine::tests::peer::until;
use crate::engine::tests::space::Space;
use crate::engine::tests::topology::Topology;
use crate::engine::tests::{asks, names, recalls, reports, take};
use std::any::Any;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use tokio::runtime::Builder;
use tokio::time::timeout;

/// A case that takes longer hangs.
const HANGS: Duration = Duration::from_secs(300);

/// How many cases run at once: servers and processes share the machine.
const AT_ONCE: usize = 4;

pub(crate) type Case = fn(Space) -> Pin<Box<dyn Future<Output = ()>>>;

/// Names the cases of each file.
macro_rules! cases {
    ($($file:ident: $($case:ident)*;)*) => {
        &[$($((
            concat!(stringify!($file), "::", stringify!($case)),
            |space| Box::pin($file::$case(space)),
        ),)*)*]
    };
}
pub(crate) use cases;

pub(crate) const SHARED: &[(&str, Case)] = cases! {
    asks:
        ask_reaches_all_that_listen
        asks_that_come_fast_come_once
        listener_goes_on_after_its_connection
        asks_stay_in_their_part;
    names:
        locks_in_use_are_found
        many_locks_are_found
        several_locks_are_viewed_together;
    recalls:
        lock_is_recalled_from_another_process
        recalls_of_a_long_name_are_not_heard;
    reports:
        report_replaces_the_earlier_one
        long_report_is_read_in_part
        reports_of_many_are_read_in_parts_until_the_end_of_the_time
        report_ends_with_its_process;
    take:
        lock_passes_to_the_next
        another_token_takes_nothing
        number_is_raised_for_good
        taken_token_never_holds_again
        taken_waiter_leaves_the_queue
        readers_are_taken_one_by_one
        downgraded_holder_is_taken_by_its_present_token;
};

/// Runs all cases, each on a thread of its own, then names those that failed, with the cause.
pub(crate) fn run(topology: Topology, cases: &[&[(&'static str, Case)]]) {
    let chosen = std::env::var("LOCK_CASES").unwrap_or_default();
    let cases = cases.iter().copied().flatten();
    let cases = cases.filter(|(name, _)| name.contains(&chosen));
    let (topology, cases) = (Arc::new(topology), Mutex::new(cases));
    let failed = Mutex::new(Vec::new());
    let run_one = |(name, case): &(&str, Case)| {
        let (case, space) = (*case, Space::new(&topology));
        let thread = thread::Builder::new().name(format!("{name} on {}", topology.name));
        let thread = thread.spawn(move || run_case(case, space));
        if let Err(panic) = thread.unwrap().join() {
            let words = format!("{name}: {}", words(&*panic));
            failed.lock().unwrap().push(words);
        }
    };
    let next = || cases.lock().unwrap().next();
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(case) = next() {
                    run_one(case);
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(
        failed.is_empty(),
        "{} cases failed on {}:\n{}",
        failed.len(),
        topology.name,
        failed.join("\n")
    );
}

fn run_case(case: Case, space: Space) {
    let ended = async {
        let ended = timeout(HANGS, case(space.clone())).await;
        ended.expect("it hangs");
        let observer = space.peer().await;
        let is_free = async || observer.keys("", 1).await.is_empty();
        until("it leaves no lock behind", is_free).await;
    };
    let mut runtime = Builder::new_current_thread();
    runtime.enable_all().build().unwrap().block_on(ended);
}

/// Returns the beginning of the panic message.
fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("panicked").chars().take(400).collect()
}
