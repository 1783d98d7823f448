//! Lists all cases.

use std::pin::Pin;

use super::fixture::Fixture;
use super::{
    attribute, bad_input, blocking, busy, cancellation, connecting, crash, ends_of_leases, events,
    exit_paths, fencing, force, inspect, keys, lazy, lease, lease_loss, loss, lost_replies,
    min_hold, nesting, options, outage, ping, process_end, queue, readers, reports, revoke,
    semaphore, set_aside, several_keys, shutdown, starting, waiting, wanted,
};

type Run = fn(Fixture) -> Pin<Box<dyn Future<Output = ()> + Send>>;

/// What a case depends on, and so which topologies play it by default.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// On the caller's side alone: one server, and virtual time.
    Caller,
    /// On the runtime that drives the requests, too: a single thread, and one topology of each engine.
    Runtime,
    /// On what the engine does: one topology of each.
    Engine,
    /// On how servers are reached, and how they fail: all topologies.
    Topology,
}

pub struct Case {
    pub name: &'static str,
    pub scope: Scope,
    pub run: Run,
}

macro_rules! cases {
    ($($scope:ident { $($file:ident: $($case:ident)*;)* })*) => {
        &[$($($(Case {
            name: concat!(stringify!($file), "::", stringify!($case)),
            scope: Scope::$scope,
            run: |fixture| Box::pin($file::$case(fixture)),
        },)*)*)*]
    };
}

pub const CASES: &[Case] = cases! {
    Caller {
        attribute:
            attribute_with_zero_wait_tries_once
            attribute_error_names_key_and_cause
            attribute_cancels_body_after_max_hold
            attribute_works_on_methods
            attribute_releases_in_background;
        bad_input:
            invalid_durations_are_rejected;
        busy:
            busy_names_this_process
            busy_names_this_process_for_the_rest_of_min_hold
            busy_names_the_task_that_holds_the_lock;
        events:
            each_call_and_each_guard_ends_in_one_event
            waiters_and_holders_are_counted
            shared_and_several_holds_end_once_for_each_call
            every_reader_of_a_lost_hold_is_told_while_its_guard_lives
            a_handler_may_use_locks_and_panic;
        keys:
            invalid_keys_are_rejected;
        lazy:
            call_that_a_kept_lock_does_not_suit_ends_it
            callers_of_the_process_wait_beside_no_kept_lock
            locks_beyond_the_bound_are_released
            calls_that_need_no_request_let_other_tasks_run;
        lease:
            loss_without_renewal_does_not_speak_of_renewals
            ensure_valid_for_rejects_longer_duration_and_keeps_lock;
        loss:
            continue_on_lost_keeps_body_running
            result_of_finished_body_is_kept;
        nesting:
            nested_call_for_held_lock_would_deadlock
            nested_call_has_the_fencing_token_of_the_outer_one
            body_that_moves_to_another_task_keeps_its_locks
            nested_single_try_is_busy
            nested_single_try_beside_another_call_is_none
            lost_lock_can_be_acquired_in_its_body
            upgrade_would_deadlock
            reentrant_calls_run_under_outer_hold_one_at_a_time
            reentrant_readers_run_together
            nested_guard_is_not_downgraded_under_its_body
            spawned_task_inherits_nothing
            siblings_exclude_each_other;
        options:
            min_hold_is_validated
            lazy_is_refused_where_it_makes_no_sense
            max_waiters_makes_further_callers_busy;
        ping:
            ping_after_shutdown_says_so;
        readers:
            readers_of_one_process_join_a_hold
            readers_of_a_free_lock_are_not_too_many_waiters;
        revoke:
            revoked_key_ends_nested_bodies_and_those_of_several_keys;
        set_aside:
            call_past_its_deadline_gets_no_lock
            grant_that_is_not_picked_up_passes_to_the_next_local_waiter
            read_hold_ends_without_the_reader_that_is_not_polled;
        several_keys:
            dropped_call_frees_all_keys
            nested_calls_for_several_keys_run
            keys_of_a_failed_call_are_free_despite_min_hold
            keys_are_validated
            too_many_keys_are_refused;
        shutdown:
            shutdown_cancels_bodies_that_stay
            shutdown_releases_no_lock_under_its_guard
            shutdown_waits_for_the_lease_of_a_body_past_its_max_hold
            nested_calls_run_during_shutdown
            first_of_several_shutdowns_cancels
            dropped_shutdown_cancels_no_body;
        waiting:
            wait_is_bounded_behind_local_waiters
            zero_wait_tries_once
            local_waiters_are_served_in_order
            different_keys_do_not_block_each_other;
        wanted:
            waits_for_others_that_are_dropped_at_once_add_up
            guard_is_wanted_by_none_that_an_earlier_one_let_in;
    }
    Runtime {
        blocking:
            plain_threads_and_tasks_exclude_each_other
            plain_thread_waits_no_longer_than_asked;
        cancellation:
            call_dropped_at_any_await_point_frees_lock
            waiting_call_dropped_at_any_await_point_frees_lock
            guard_dropped_at_any_await_point_frees_lock
            hundred_dropped_calls_free_their_locks
            acquire_dropped_around_its_reply_frees_lock
            waiter_dropped_around_its_grant_frees_lock;
        exit_paths:
            panic_in_body_releases_lock
            run_releases_lock_at_end_and_on_panic
            released_or_dropped_guard_frees_lock
            guard_dropped_outside_runtime_frees_lock
            call_dropped_in_body_frees_lock
            call_dropped_by_select_frees_lock
            call_dropped_by_timeout_frees_lock
            call_dropped_while_waiting_never_acquires_lock
            dropped_current_thread_runtime_frees_its_locks
            dropped_multi_thread_runtime_frees_its_locks
            runtime_shut_down_in_background_frees_its_locks
            guard_of_idle_runtime_frees_lock
            body_is_dropped_before_lock_is_released
            background_releases_do_not_block_next_call
            shutdown_rejects_new_locks_and_waits_for_releases;
        lease:
            lock_is_renewed_while_thread_is_blocked;
        process_end:
            returns
            fails
            panics
            returns_on_one_thread
            shuts_down
            exits_after_its_runtime
            drops_its_runtime
            shuts_its_runtime_down
            abandons_its_runtime
            joins_a_thread;
        shutdown:
            shutdown_waits_for_the_lease_of_a_body_that_blocks;
        waiting:
            callers_without_a_runtime_connect_wait_and_hold;
    }
    Engine {
        attribute:
            attribute_releases_lock_on_every_result
            attribute_gives_lazily_released_lock_to_waiters_elsewhere;
        busy:
            busy_names_the_process_that_holds_the_lock;
        crash:
            crashed_holder_is_replaced_after_its_ttl
            crashed_waiter_costs_others_little;
        ends_of_leases:
            reader_behind_a_dead_writer_enters_in_time
            end_of_a_lease_serves_the_queue_before_newcomers
            end_of_a_killed_holders_lease_serves_the_queue_before_newcomers
            end_of_min_hold_serves_waiters_first;
        events:
            a_downgraded_guard_ends_once
            a_key_that_is_gone_at_the_release_is_told_as_lost
            renewals_are_told_with_what_was_left_of_the_ttl;
        fencing:
            fencing_tokens_increase_across_processes
            hold_has_one_fencing_token
            fencing_tokens_increase_across_waiters;
        force:
            force_takes_the_lock_from_a_process_that_cannot_hear
            force_takes_the_lock_of_a_body_that_does_not_stop
            lock_of_another_client_is_taken_by_force_alone;
        inspect:
            readers_and_permits_are_told_apart
            a_downgraded_holder_is_shown_as_a_reader
            another_client_is_shown_as_what_it_is;
        lazy:
            next_call_of_the_process_needs_no_request
            lock_that_pays_off_is_kept_again_after_a_recall
            recall_during_a_body_ends_with_it
            kept_lock_is_released_when_its_renewal_is_due
            kept_locks_are_released_with_their_manager
            last_guard_of_a_manager_keeps_nothing
            revoked_kept_lock_is_given_back
            lost_kept_lock_is_dropped_in_silence
            kept_locks_are_told_and_counted;
        lease:
            lock_is_renewed_while_held
            many_locks_are_renewed
            body_without_renewal_ends_after_ttl
            renewal_ends_at_max_hold
            short_lease_is_renewed
            guard_is_never_valid_after_ttl;
        loss:
            deleted_lock_cancels_body
            stolen_lock_cancels_body_and_is_left_unchanged
            release_of_lost_lock_reports_loss
            lost_lock_gets_no_fencing_token;
        min_hold:
            end_of_min_hold_serves_the_queue_before_newcomers
            end_of_min_hold_reaches_next_process_at_once
            min_hold_ends_in_time_without_its_manager;
        options:
            min_hold_keeps_lock_on_every_exit_path
            canceled_call_keeps_no_lock_for_min_hold
            shared_lock_is_free_after_min_hold;
        queue:
            granted_lock_is_renewed_by_new_holder
            waiter_of_other_process_is_served_between_local_waiters
            shutdown_fails_waiters_and_removes_queue_entries;
        readers:
            readers_share_lock_and_exclude_writers
            readers_and_writers_enter_in_order_of_arrival
            read_hold_from_queue_is_no_way_past_writers
            writer_that_gives_up_lets_readers_enter
            reader_depends_on_no_other_one
            loss_reaches_every_reader_of_a_hold
            readers_and_writers_never_overlap
            downgrade_admits_readers_and_no_writer
            dropped_downgrade_frees_lock
            fencing_tokens_order_readers_and_writers;
        reports:
            a_process_may_tell_nothing
            a_kept_lock_is_told_from_a_held_one;
        revoke:
            guard_that_is_not_dropped_keeps_a_revoked_lock
            holder_whose_lock_another_takes_is_not_said_to_have_stopped
            holder_whose_lease_has_ended_is_not_said_to_have_stopped
            process_that_has_waited_hears_asks
            one_of_several_holders_is_revoked
            lock_that_was_passed_on_is_not_revoked_from_the_next_body
            holder_that_is_downgraded_meanwhile_has_not_stopped
            call_for_several_keys_gives_up_any_that_it_has
            a_hundred_holders_of_one_process_are_known_to_have_stopped
            guard_without_its_manager_is_revoked
            min_hold_ends_with_a_revocation
            downgraded_holder_is_no_longer_meant
            nobody_hears_of_a_lock_that_does_not_exist;
        semaphore:
            permits_bound_the_holders_of_all_processes
            permits_with_min_hold_limit_a_rate
            exclusive_holder_waits_for_all_permits
            lowest_number_of_permits_counts
            waiting_permits_are_granted_in_order
            longest_ttl_keeps_the_limit
            permits_are_validated;
        set_aside:
            grant_that_is_not_picked_up_passes_to_another_process
            grant_passes_on_at_the_deadline_of_its_call
            keys_of_a_call_that_is_not_polled_pass_on;
        several_keys:
            common_keys_never_deadlock
            call_for_several_keys_passes_no_waiter
            lost_key_loses_the_guard
            overtaken_holder_of_several_keys_gets_no_fencing_token
            several_keys_have_one_fencing_token
            busy_key_releases_the_others;
        shutdown:
            shutdown_waits_for_bodies_that_finish
            canceling_shutdown_keeps_locks_for_their_min_hold;
        waiting:
            wait_is_bounded
            unbounded_wait_acquires_lock
            canceled_waiter_does_not_delay_others
            lock_has_one_holder_at_a_time
            expired_guard_does_not_block_next_holder;
        wanted:
            holder_that_has_waited_hears_that_another_process_waits
            holder_without_a_runtime_hears_that_another_process_waits
            last_guard_of_a_manager_learns_that_another_process_waits
            loss_ends_the_wait_for_others;
    }
    Topology {
        bad_input:
            bad_urls_are_rejected
            configurations_that_do_not_fit_the_servers_are_rejected
            unreachable_and_silent_servers_are_unavailable
            servers_of_other_engines_are_refused
            wrong_credentials_are_rejected_and_right_ones_never_shown
            wrong_tls_setup_is_rejected
            client_certificates_are_shown_where_they_are_demanded
            what_the_engine_lacks_is_refused;
        busy:
            busy_names_the_service_after_a_second;
        connecting:
            manager_connects_over_a_slow_path
            connecting_waits_for_servers_that_answer_late
            connecting_in_vain_lasts_for_the_connect_timeout;
        events:
            a_server_that_goes_and_comes_back_is_told_once;
        inspect:
            a_free_lock_has_no_holder
            holder_and_waiters_are_named
            inspecting_fails_in_time_during_an_outage;
        keys:
            unusual_keys_work
            many_keys_are_held_and_released_at_once;
        lazy:
            waiter_elsewhere_recalls_a_kept_lock
            keys_kept_elsewhere_are_recalled_together;
        lease_loss:
            holder_behind_a_cut_network_is_replaced
            holder_behind_a_silent_network_is_replaced
            holder_without_replies_is_replaced
            holder_whose_requests_are_late_is_replaced
            brief_cut_of_the_network_costs_no_lock
            brief_silence_of_the_network_costs_no_lock
            connection_that_is_never_answered_costs_no_lock
            connection_that_is_never_answered_costs_no_short_lease
            servers_that_fail_cost_what_they_forget;
        lost_replies:
            unanswered_acquire_is_retried_and_held_once
            unanswered_release_is_retried
            acquire_answered_after_its_caller_was_dropped_is_released
            acquire_arriving_after_its_connection_was_replaced_is_released
            acquire_arriving_after_its_ttl_leaves_no_lock
            timed_out_acquire_leaves_no_lock;
        outage:
            calls_fail_in_time_during_an_outage_and_work_after_it
            lost_connection_and_its_return_are_logged_once
            broken_connections_are_replaced
            release_during_outage_is_retried_until_recovery
            shutdown_waits_for_retried_release
            shutdown_during_outage_ends_within_ttl
            slow_network_only_delays_calls;
        ping:
            ping_follows_the_network
            ping_follows_the_servers
            ping_needs_a_majority_of_the_members;
        reports:
            a_process_tells_who_it_is
            a_claim_is_described
            a_process_that_has_shut_down_is_listed_no_more
            locks_in_use_are_listed;
        revoke:
            revoked_body_is_canceled_and_the_next_enters;
        several_keys:
            all_keys_are_held_and_released
            thousand_keys_are_renewed_until_each_is_released;
        queue:
            released_lock_reaches_next_process_at_once
            waiter_that_leaves_is_skipped
            many_canceled_waiters_lose_no_grant
            busy_process_does_not_starve_others;
        shutdown:
            shutdown_of_bodies_is_bounded_during_an_outage;
        starting:
            manager_starts_during_an_outage
            manager_starts_before_its_servers
            shutdown_before_the_first_connection_ends_waits
            unsafe_servers_are_refused_when_they_come
            wrong_credentials_are_told_when_the_servers_come;
        waiting:
            timeouts_have_no_upper_limit;
        wanted:
            holder_hears_that_another_process_waits;
    }
};

/// The cases that run in real time alone.
pub const REAL_TIME: &[&str] = &[
    // A runtime has a clock of its own, and these end with a second runtime while the first one goes on.
    "exit_paths::dropped_current_thread_runtime_frees_its_locks",
    "exit_paths::dropped_multi_thread_runtime_frees_its_locks",
    "exit_paths::runtime_shut_down_in_background_frees_its_locks",
    // A thread outside of all runtimes has only the clock of the machine.
    "exit_paths::guard_dropped_outside_runtime_frees_lock",
    "waiting::callers_without_a_runtime_connect_wait_and_hold",
    "wanted::holder_without_a_runtime_hears_that_another_process_waits",
    "blocking::plain_threads_and_tasks_exclude_each_other",
    "blocking::plain_thread_waits_no_longer_than_asked",
    // A body blocks its thread until time has passed, and a paused clock stands still while a thread works.
    "lease::lock_is_renewed_while_thread_is_blocked",
    "shutdown::shutdown_waits_for_the_lease_of_a_body_that_blocks",
    "shutdown::shutdown_waits_for_the_lease_of_a_body_past_its_max_hold",
];

/// The cases that are about real time, each of which is repeated alone if the machine has starved it.
pub const TIMED: &[&str] = &[
    // A wait ends with its time.
    "waiting::wait_is_bounded",
    // A body ends with its lease at the latest, and a shutdown with that of its bodies.
    "lease::body_without_renewal_ends_after_ttl",
    "lease_loss::holder_behind_a_cut_network_is_replaced",
    "lease_loss::holder_behind_a_silent_network_is_replaced",
    "lease_loss::holder_without_replies_is_replaced",
    "lease_loss::holder_whose_requests_are_late_is_replaced",
    "lease_loss::servers_that_fail_cost_what_they_forget",
    "shutdown::shutdown_waits_for_the_lease_of_a_body_that_blocks",
    "shutdown::shutdown_of_bodies_is_bounded_during_an_outage",
    "outage::shutdown_during_outage_ends_within_ttl",
    // A process that dies costs others its lease, and its place in a queue little.
    "crash::crashed_holder_is_replaced_after_its_ttl",
    "crash::crashed_waiter_costs_others_little",
    "ends_of_leases::reader_behind_a_dead_writer_enters_in_time",
    // A lease is renewed in time despite a brief fault.
    "lease_loss::brief_cut_of_the_network_costs_no_lock",
    "lease_loss::brief_silence_of_the_network_costs_no_lock",
    "lease_loss::connection_that_is_never_answered_costs_no_lock",
    "lease_loss::connection_that_is_never_answered_costs_no_short_lease",
    // Calls fail in time during an outage.
    "outage::calls_fail_in_time_during_an_outage_and_work_after_it",
    "inspect::inspecting_fails_in_time_during_an_outage",
    "ping::ping_follows_the_network",
    "starting::manager_starts_during_an_outage",
    "connecting::connecting_in_vain_lasts_for_the_connect_timeout",
    // A free lock reaches the next process by a message, before that asks again.
    "queue::released_lock_reaches_next_process_at_once",
    "min_hold::end_of_min_hold_reaches_next_process_at_once",
    "lazy::waiter_elsewhere_recalls_a_kept_lock",
    "lazy::keys_kept_elsewhere_are_recalled_together",
    // So does the news that another process waits, before a crowd of local callers is served.
    "queue::waiter_of_other_process_is_served_between_local_waiters",
    // A lock that no caller waits for any more is released before it would end by itself.
    "queue::many_canceled_waiters_lose_no_grant",
    "lost_replies::acquire_arriving_after_its_ttl_leaves_no_lock",
];
