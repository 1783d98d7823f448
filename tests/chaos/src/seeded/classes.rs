//! The rules that patches remove.
//!
//! The first fourteen, and those about locks that are shared, are rules that a model of the protocol showed
//! to be necessary. Without those that follow, leases, queues, subscriptions and connections have failed
//! before. The last ones are of locks in PostgreSQL, etcd, ZooKeeper and
//! stores.

use std::path::{Path, PathBuf};

use Finder::{Scene, ServerTest, UnitTest};

/// A rule that a patch removes.
pub struct Class {
    pub name: &'static str,
    pub patch: &'static str,
    pub finder: Finder,
}

/// What detects that a rule is missing.
pub enum Finder {
    /// A scene, which is played until a rule of the checker is broken.
    Scene(&'static str),
    /// A unit test of the library, or one of its cases, which a space parts from it, …
    UnitTest(&'static str),
    /// … or a test on real servers.
    ServerTest(&'static str),
}

pub const CLASSES: &[Class] = &[
    Class {
        name: "C1",
        patch: "c01-pushed-lease-counts-from-its-receipt",
        finder: Scene("late_messages"),
    },
    Class {
        name: "C2",
        patch: "c02-replies-count-from-their-receipt",
        finder: Scene("late_replies"),
    },
    Class {
        name: "C3",
        patch: "c03-late-replies-count",
        finder: Scene("stopped_bodies"),
    },
    Class {
        name: "C4",
        patch: "c04-fencing-token-grows-within-a-hold",
        finder: Scene("all_is_well"),
    },
    Class {
        name: "C5",
        patch: "c05-no-adoption",
        finder: Scene("lost_messages"),
    },
    Class {
        name: "C6",
        patch: "c06-waiters-do-not-poll",
        finder: Scene("lost_messages"),
    },
    Class {
        name: "C7",
        patch: "c07-cancel-only-leaves-the-queue",
        finder: Scene("many_give_up"),
    },
    Class {
        name: "C8",
        patch: "c08-cancel-is-sent-once-and-forgotten",
        finder: Scene("late_requests"),
    },
    Class {
        name: "C9",
        patch: "c09-one-token-for-all-attempts",
        finder: Scene("late_releases"),
    },
    Class {
        name: "C10",
        patch: "c10-grants-for-the-whole-ttl",
        finder: Scene("killed_waiters"),
    },
    Class {
        name: "C11",
        patch: "c11-asking-again-prolongs-the-lease",
        finder: Scene("requests_of_the_stopped"),
    },
    Class {
        name: "C12",
        patch: "c12-expired-locks-are-not-looked-for",
        finder: Scene("killed_holders"),
    },
    Class {
        name: "C13",
        patch: "c13-no-margin",
        finder: Scene("slow_clock"),
    },
    Class {
        name: "C14",
        patch: "c14-requests-are-never-void",
        finder: Scene("requests_of_the_dead"),
    },
    Class {
        name: "C15",
        patch: "c15-ttl-changes-while-renewals-are-out",
        finder: Scene("several_ttls"),
    },
    Class {
        name: "C16",
        patch: "c16-renewals-are-retried-by-the-ttl",
        finder: Scene("connections_killed"),
    },
    Class {
        name: "C17",
        patch: "c17-woken-waiters-count-as-alive-for-long",
        finder: Scene("stopped_in_a_row"),
    },
    Class {
        name: "C18",
        patch: "c18-refused-subscriptions-count-as-made",
        finder: Scene("subscriptions_refused"),
    },
    Class {
        name: "C19",
        patch: "c19-messages-are-trusted",
        finder: Scene("nonsense"),
    },
    Class {
        name: "C20",
        patch: "c20-drivers-get-no-help",
        finder: Scene("blocked_after_a_drop"),
    },
    Class {
        name: "C21",
        patch: "c21-refused-releases-are-given-up",
        finder: Scene("releases_refused"),
    },
    Class {
        name: "C22",
        patch: "c22-acquisitions-without-a-reply-are-released-for-a-ttl",
        finder: Scene("frozen_past_the_ttl"),
    },
    Class {
        name: "C23",
        patch: "c23-replies-to-callers-that-left-are-not-awaited",
        finder: Scene("callers_leave"),
    },
    Class {
        name: "C24",
        patch: "c24-acquisitions-that-are-left-are-not-released",
        finder: Scene("callers_leave"),
    },
    Class {
        name: "C25",
        patch: "c25-releases-overtake-acquisitions",
        finder: Scene("callers_leave"),
    },
    Class {
        name: "C26",
        patch: "c26-slots-are-used-again-before-the-reply",
        finder: Scene("callers_leave"),
    },
    Class {
        name: "C27",
        patch: "c27-readers-pass-the-queue",
        finder: Scene("readers_and_writers"),
    },
    Class {
        name: "C28",
        patch: "c28-only-the-newcomers-limit-counts",
        finder: Scene("permits"),
    },
    Class {
        name: "C29",
        patch: "c29-a-renewal-renews-all-readers",
        finder: Scene("permits_killed"),
    },
    Class {
        name: "C30",
        patch: "c30-the-key-expires-with-the-latest-lease",
        finder: Scene("several_ttls_of_readers"),
    },
    Class {
        name: "C31",
        patch: "c31-ended-leases-count",
        finder: Scene("permits_killed"),
    },
    Class {
        name: "C32",
        patch: "c32-a-release-grants-nothing-beside-others",
        finder: Scene("permits_passed_on"),
    },
    Class {
        name: "C33",
        patch: "c33-a-writer-that-gives-up-makes-no-room",
        finder: Scene("writers_give_up"),
    },
    Class {
        name: "C34",
        patch: "c34-neighbors-enter-one-by-one",
        finder: Scene("readers_enter_together"),
    },
    Class {
        name: "C35",
        patch: "c35-silent-writers-are-not-woken",
        finder: Scene("silent_writers"),
    },
    Class {
        name: "C36",
        patch: "c36-a-repeated-downgrade-prolongs",
        finder: Scene("downgrades"),
    },
    Class {
        name: "C39",
        patch: "c39-requests-for-one-row-run-at-once",
        finder: Scene("crowded_row"),
    },
    Class {
        name: "C40",
        patch: "c40-rows-are-released-by-name",
        finder: Scene("late_releases_of_rows"),
    },
    Class {
        name: "C41",
        patch: "c41-acquisitions-are-not-flushed",
        finder: Scene("database_crashes"),
    },
    Class {
        name: "C43",
        patch: "c43-writes-of-earlier-connections-count",
        finder: Scene("late_writes"),
    },
    Class {
        name: "C44",
        patch: "c44-claims-see-only-their-own-limit",
        finder: Scene("mixed_line"),
    },
    Class {
        name: "C45",
        patch: "c45-releases-are-sent-once",
        finder: Scene("releases_cut_off"),
    },
    Class {
        name: "C46",
        patch: "c46-pings-prove-sessions",
        finder: Scene("frozen_leader"),
    },
    Class {
        name: "C47",
        patch: "c47-claims-without-a-reply-are-not-looked-for",
        finder: ServerTest("unanswered_claim_leaves_no_node"),
    },
    Class {
        name: "C48",
        patch: "c48-deletions-are-sent-once",
        finder: Scene("claims_cut_off"),
    },
    Class {
        name: "C49",
        patch: "c49-leases-count-from-the-reply",
        finder: UnitTest("a_lease_counts_from_before_the_request_that_granted_it"),
    },
    Class {
        name: "C50",
        patch: "c50-kept-alive-leases-count",
        finder: Scene("revoked_leases"),
    },
    Class {
        name: "C51",
        patch: "c51-releases-wait-for-transactions",
        finder: ServerTest("release_beside_an_ensured_transaction_hands_on_at_its_end"),
    },
    Class {
        name: "C52",
        patch: "c52-ends-of-others-are-trusted-without-a-claim",
        finder: Scene("places_deleted"),
    },
    Class {
        name: "C54",
        patch: "c54-silence-is-found-by-chance",
        finder: Scene("stopped_writers"),
    },
    Class {
        name: "C55",
        patch: "c55-offers-are-never-withdrawn",
        finder: Scene("calls_set_aside"),
    },
    Class {
        name: "C56",
        patch: "c56-threads-wait-for-nothing-at-their-ends",
        finder: Scene("ordinary_ends"),
    },
    Class {
        name: "C57",
        patch: "c57-refusals-end-leases",
        finder: Scene("commands_denied"),
    },
    Class {
        name: "C58",
        patch: "c58-keys-end-with-their-leases",
        finder: ServerTest("queue_behind_a_stopped_waiter_is_served_before_newcomers"),
    },
    Class {
        name: "C59",
        patch: "c59-keys-are-renewed-only-once-all-are-acquired",
        finder: Scene("keys_acquired_slowly"),
    },
    Class {
        name: "C61",
        patch: "c61-places-come-from-an-unlogged-sequence",
        finder: Scene("promoted_at_once"),
    },
    Class {
        name: "C62",
        patch: "c62-newcomers-pass-the-queue-at-the-end-of-a-lease",
        finder: ServerTest(
            "conformance::postgres end_of_a_killed_holders_lease_serves_the_queue_before_newcomers",
        ),
    },
    Class {
        name: "C63",
        patch: "c63-silent-rows-are-not-woken",
        finder: Scene("stopped_writers_in_rows"),
    },
    Class {
        name: "C64",
        patch: "c64-shutdowns-wait-for-no-body",
        finder: Scene("shut_down_under_bodies"),
    },
    Class {
        name: "C65",
        patch: "c65-each-release-grants-the-lock",
        finder: ServerTest("releases_of_one_lock_in_one_call_grant_it_once"),
    },
    Class {
        name: "C66",
        patch: "c66-tokens-enter-a-line-again",
        finder: UnitTest(
            "engine::etcd::tests::operations a_claim_that_is_taken_while_it_is_cut_off_does_not_return",
        ),
    },
    Class {
        name: "C67",
        patch: "c67-whoever-holds-it-is-taken",
        finder: Scene("locks_taken"),
    },
    Class {
        name: "C68",
        patch: "c68-taken-tokens-leave-no-tombstone",
        finder: Scene("requests_of_the_taken"),
    },
    Class {
        name: "C69",
        patch: "c69-a-force-draws-the-last-number-again",
        finder: Scene("locks_taken"),
    },
    Class {
        name: "C70",
        patch: "c70-early-recalls-are-forgotten",
        finder: UnitTest("a_recall_overtakes_the_reply_to_the_acquisition"),
    },
    Class {
        name: "C71",
        patch: "c71-callers-wait-beside-kept-locks",
        finder: UnitTest("callers_of_the_keeper_do_not_wait_beside_a_kept_lock"),
    },
    Class {
        name: "C72",
        patch: "c72-shutdowns-leave-kept-locks",
        finder: UnitTest("a_shutdown_races_with_the_next_caller_of_the_keeper"),
    },
    Class {
        name: "C73",
        patch: "c73-managers-end-with-kept-locks",
        finder: Scene("keepers_end"),
    },
    Class {
        name: "C74",
        patch: "c74-kept-locks-are-renewed",
        finder: Scene("recalls_lost"),
    },
    Class {
        name: "C75",
        patch: "c75-recalls-are-ignored",
        finder: Scene("kept_locks_recalled"),
    },
    Class {
        name: "C76",
        patch: "c76-kept-locks-are-resumed-whatever-is-left",
        finder: UnitTest("a_kept_lock_is_not_resumed_after_its_lease"),
    },
    Class {
        name: "C77",
        patch: "c77-missed-recalls-are-not-made-up-for",
        finder: UnitTest("a_new_subscription_makes_up_for_recalls_that_were_missed"),
    },
    Class {
        name: "C78",
        patch: "c78-asks-end-renewals",
        finder: Scene("locks_asked_for"),
    },
    Class {
        name: "C79",
        patch: "c79-whoever-is-gone-has-stopped",
        finder: Scene("locks_asked_for"),
    },
    Class {
        name: "C80",
        patch: "c80-observers-have-no-margin",
        finder: UnitTest("holders_exclude_each_other_whatever_the_network_and_the_clocks_do"),
    },
    Class {
        name: "C81",
        patch: "c81-late-insertions-are-forgotten",
        finder: UnitTest("holders_exclude_each_other_whatever_the_network_and_the_clocks_do"),
    },
    Class {
        name: "C82",
        patch: "c82-grants-count-from-the-look-that-shows-them",
        finder: UnitTest("holders_exclude_each_other_whatever_the_network_and_the_clocks_do"),
    },
    Class {
        name: "C83",
        patch: "c83-transactions-keep-no-lock",
        finder: UnitTest("holders_exclude_each_other_whatever_the_network_and_the_clocks_do"),
    },
    Class {
        name: "C84",
        patch: "c84-requests-of-those-who-left-are-carried-out",
        finder: UnitTest("holders_exclude_each_other_whatever_the_network_and_the_clocks_do"),
    },
    Class {
        name: "C85",
        patch: "c85-taken-tokens-are-not-remembered",
        finder: UnitTest("holders_exclude_each_other_whatever_the_network_and_the_clocks_do"),
    },
    Class {
        name: "C86",
        patch: "c86-numbers-come-again-within-a-tick",
        finder: UnitTest("holders_exclude_each_other_whatever_the_network_and_the_clocks_do"),
    },
    Class {
        name: "C87",
        patch: "c87-downgrades-end-proofs",
        finder: UnitTest("holders_exclude_each_other_whatever_the_network_and_the_clocks_do"),
    },
    Class {
        name: "C88",
        patch: "c88-observers-count-from-their-requests",
        finder: UnitTest("holders_exclude_each_other_whatever_the_network_and_the_clocks_do"),
    },
    Class {
        name: "C89",
        patch: "c89-repeated-requests-confirm-nothing",
        finder: UnitTest("holders_exclude_each_other_whatever_the_network_and_the_clocks_do"),
    },
    Class {
        name: "C90",
        patch: "c90-clocks-of-servers-stand-still",
        finder: UnitTest("holders_exclude_each_other_whatever_the_network_and_the_clocks_do"),
    },
    Class {
        name: "C91",
        patch: "c91-conflicts-show-the-present",
        finder: UnitTest("holders_exclude_each_other_whatever_the_network_and_the_clocks_do"),
    },
    Class {
        name: "C92",
        patch: "c92-looks-drop-kept-locks",
        finder: UnitTest("the_end_of_a_guard_races_with_its_look"),
    },
];

impl Class {
    pub fn path(&self) -> PathBuf {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeded");
        folder.join(self.patch).with_extension("patch")
    }
}
