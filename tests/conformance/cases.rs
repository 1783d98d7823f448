//! All cases, and how they are run: at once, on keys of their own.

use std::any::Any;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Builder;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::site::{Ground, Site};
use super::topology::Topology;
use super::{attribute, cancel, exit, fencing, keys, lease, loss, queue, waiting};
use crate::support::time::within;

const LIMIT: Duration = Duration::from_secs(60);

type Case = fn(Site) -> Pin<Box<dyn Future<Output = ()> + Send>>;

macro_rules! cases {
    ($($file:ident: $($case:ident)*;)*) => {
        &[$($((
            concat!(stringify!($file), "::", stringify!($case)),
            |site| Box::pin($file::$case(site)),
        ),)*)*]
    };
}

const CASES: &[(&str, Case)] = cases! {
    attribute:
        releases_whatever_the_body_gives
        tries_once
        says_what_it_found
        cancels_a_body_that_is_held_for_too_long
        works_on_methods
        releases_in_the_background;
    cancel:
        a_call_at_every_await_point
        a_waiting_call_at_every_await_point
        a_guard_at_every_await_point
        a_hundred_calls_dropped_together
        an_acquisition_dropped_sooner_or_later
        a_waiter_dropped_while_the_lock_comes;
    exit:
        when_the_body_panics
        when_run_ends_and_when_it_panics
        when_a_guard_is_released_or_dropped
        when_a_guard_is_dropped_outside_any_runtime
        when_the_call_is_dropped_while_its_body_runs
        when_select_drops_the_call
        when_a_timeout_drops_the_call
        a_call_dropped_while_it_waits_never_has_the_lock
        when_a_current_thread_runtime_is_dropped
        when_a_multi_thread_runtime_is_dropped
        when_a_runtime_is_shut_down_in_the_background
        when_the_runtime_that_took_the_lock_is_never_polled_again
        the_body_is_dropped_before_the_lock_is_released
        background_releases_keep_their_order
        shutdown_refuses_new_locks_and_waits_for_the_releases;
    fencing:
        they_grow_with_holds_whoever_holds
        a_hold_has_one
        they_grow_along_a_line_of_waiters;
    keys:
        odd_ones
        invalid_ones_are_refused
        many_at_once;
    lease:
        a_lock_is_renewed_as_long_as_it_is_held
        many_locks_are_renewed_together
        a_blocked_thread_keeps_its_lock
        without_renewal_the_body_has_its_ttl
        renewal_ends_at_max_hold
        short_leases_are_kept
        validity_never_outlasts_the_ttl
        ensure_looks_ahead;
    loss:
        a_deleted_lock_ends_the_body
        a_stolen_lock_ends_the_body_and_stays_the_thiefs
        with_continue_the_body_goes_on
        a_release_tells_what_it_found
        the_result_of_a_body_that_ended_stays
        no_fencing_token_for_a_lock_that_is_gone;
    queue:
        a_released_lock_is_with_the_next_process_at_once
        a_lock_that_was_handed_on_is_kept
        a_waiter_that_leaves_is_passed_over
        many_who_leave_cost_nobody_the_lock
        a_busy_process_lets_others_in
        other_processes_have_their_turn
        shutdown_sends_those_who_wait_away;
    waiting:
        it_is_bounded
        it_is_bounded_behind_others_of_the_same_process
        no_wait_is_one_try
        who_waits_for_ever_gets_it_in_the_end
        waiters_of_a_process_come_in_order
        any_waiter_may_give_up
        keys_do_not_wait_for_one_another
        one_holder_at_a_time
        an_expired_guard_is_in_nobodys_way;
};

/// So many cases at once, over all topologies: more of them measure one another.
static AT_ONCE: Semaphore = Semaphore::const_new(12);

/// Says of every case that fails which it is and why, when all have ended.
pub fn run(topology: impl Topology + 'static) {
    run_with(topology, Builder::new_multi_thread().worker_threads(3));
}

/// As most tests of services do.
pub fn run_on_one_thread(topology: impl Topology + 'static) {
    run_with(topology, &mut Builder::new_current_thread());
}

fn run_with(topology: impl Topology + 'static, runtime: &mut Builder) {
    let runtime = runtime.enable_all().build().unwrap();
    let failed = runtime.block_on(async {
        let ground = Arc::new(Ground::on(topology).await);
        let mut running = JoinSet::new();
        let chosen = std::env::var("LOCK_CASES").unwrap_or_default();
        for (name, case) in CASES.iter().filter(|(name, _)| name.contains(&chosen)) {
            let site = Site::new(ground.clone(), name);
            running.spawn(async move {
                let _turn = AT_ONCE.acquire().await.unwrap();
                let start = Instant::now();
                let ended = tokio::spawn(within(LIMIT, case(site))).await;
                if std::env::var_os("LOCK_CASE_TIMES").is_some() {
                    println!("{:>8.3} s {name}", start.elapsed().as_secs_f64());
                }
                ended.err().map(|error| (*name, error))
            });
        }
        let ends = running.join_all().await;
        let failed: Vec<_> = ends.into_iter().flatten().collect();
        within(LIMIT, ground.close()).await;
        failed
    });
    let failed: Vec<_> = failed
        .into_iter()
        .map(|(name, error)| format!("{name}: {}", words(error.into_panic().as_ref())))
        .collect();
    assert!(
        failed.is_empty(),
        "{} of {} cases failed:\n{}",
        failed.len(),
        CASES.len(),
        failed.join("\n")
    );
}

/// What it says first.
fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("panicked").chars().take(400).collect()
}
