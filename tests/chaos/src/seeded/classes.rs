//! The rules that patches remove.
//!
//! The first fourteen, and those about locks that are shared, are rules that a model of the protocol showed to be
//! necessary. The last ones are of locks in PostgreSQL. Without the others, leases, queues, subscriptions and connections have failed before.

use std::path::{Path, PathBuf};

/// A rule that a patch removes.
pub struct Class {
    pub name: &'static str,
    pub patch: &'static str,
    pub scene: &'static str,
}

pub const CLASSES: &[Class] = &[
    Class {
        name: "C1",
        patch: "c01-pushed-lease-counts-from-its-receipt",
        scene: "late_messages",
    },
    Class {
        name: "C2",
        patch: "c02-answers-count-from-their-receipt",
        scene: "late_replies",
    },
    Class {
        name: "C3",
        patch: "c03-late-answers-count",
        scene: "stopped_bodies",
    },
    Class {
        name: "C4",
        patch: "c04-fencing-token-grows-within-a-hold",
        scene: "all_is_well",
    },
    Class {
        name: "C5",
        patch: "c05-no-adoption",
        scene: "lost_messages",
    },
    Class {
        name: "C6",
        patch: "c06-waiters-do-not-poll",
        scene: "lost_messages",
    },
    Class {
        name: "C7",
        patch: "c07-cancel-only-leaves-the-queue",
        scene: "many_give_up",
    },
    Class {
        name: "C8",
        patch: "c08-cancel-is-sent-once-and-forgotten",
        scene: "late_requests",
    },
    Class {
        name: "C9",
        patch: "c09-one-token-for-all-attempts",
        scene: "late_releases",
    },
    Class {
        name: "C10",
        patch: "c10-grants-for-the-whole-ttl",
        scene: "killed_waiters",
    },
    Class {
        name: "C11",
        patch: "c11-asking-again-prolongs-the-lease",
        scene: "requests_of_the_stopped",
    },
    Class {
        name: "C12",
        patch: "c12-expired-locks-are-not-looked-for",
        scene: "killed_holders",
    },
    Class {
        name: "C13",
        patch: "c13-no-margin",
        scene: "slow_clock",
    },
    Class {
        name: "C14",
        patch: "c14-requests-are-never-void",
        scene: "requests_of_the_dead",
    },
    Class {
        name: "C15",
        patch: "c15-ttl-changes-while-renewals-are-out",
        scene: "several_ttls",
    },
    Class {
        name: "C16",
        patch: "c16-renewals-are-retried-by-the-ttl",
        scene: "connections_killed",
    },
    Class {
        name: "C17",
        patch: "c17-woken-waiters-count-as-alive-for-long",
        scene: "stopped_in_a_row",
    },
    Class {
        name: "C18",
        patch: "c18-refused-subscriptions-count-as-made",
        scene: "subscriptions_refused",
    },
    Class {
        name: "C19",
        patch: "c19-messages-are-trusted",
        scene: "nonsense",
    },
    Class {
        name: "C20",
        patch: "c20-drivers-get-no-help",
        scene: "blocked_after_a_drop",
    },
    Class {
        name: "C21",
        patch: "c21-refused-releases-are-given-up",
        scene: "releases_refused",
    },
    Class {
        name: "C22",
        patch: "c22-unanswered-acquisitions-are-released-for-a-ttl",
        scene: "frozen_past_the_ttl",
    },
    Class {
        name: "C23",
        patch: "c23-replies-to-callers-that-left-are-not-awaited",
        scene: "callers_leave",
    },
    Class {
        name: "C24",
        patch: "c24-acquisitions-that-are-left-are-not-released",
        scene: "callers_leave",
    },
    Class {
        name: "C25",
        patch: "c25-releases-overtake-acquisitions",
        scene: "callers_leave",
    },
    Class {
        name: "C26",
        patch: "c26-slots-are-used-again-before-the-reply",
        scene: "callers_leave",
    },
    Class {
        name: "C27",
        patch: "c27-readers-pass-the-queue",
        scene: "readers_and_writers",
    },
    Class {
        name: "C28",
        patch: "c28-only-the-newcomers-limit-counts",
        scene: "permits",
    },
    Class {
        name: "C29",
        patch: "c29-a-renewal-renews-all-readers",
        scene: "permits_killed",
    },
    Class {
        name: "C30",
        patch: "c30-the-key-expires-with-the-latest-lease",
        scene: "several_ttls_of_readers",
    },
    Class {
        name: "C31",
        patch: "c31-ended-leases-count",
        scene: "permits_killed",
    },
    Class {
        name: "C32",
        patch: "c32-a-release-grants-nothing-beside-others",
        scene: "permits_passed_on",
    },
    Class {
        name: "C33",
        patch: "c33-a-writer-that-gives-up-makes-no-room",
        scene: "writers_give_up",
    },
    Class {
        name: "C34",
        patch: "c34-neighbors-enter-one-by-one",
        scene: "readers_enter_together",
    },
    Class {
        name: "C35",
        patch: "c35-silent-writers-are-not-woken",
        scene: "silent_writers",
    },
    Class {
        name: "C36",
        patch: "c36-a-repeated-downgrade-prolongs",
        scene: "downgrades",
    },
    Class {
        name: "C39",
        patch: "c39-requests-for-one-row-run-at-once",
        scene: "crowded_row",
    },
    Class {
        name: "C40",
        patch: "c40-rows-are-released-by-name",
        scene: "late_releases_of_rows",
    },
    Class {
        name: "C41",
        patch: "c41-acquisitions-are-not-flushed",
        scene: "database_crashes",
    },
    Class {
        name: "C43",
        patch: "c43-writes-of-earlier-connections-count",
        scene: "late_writes",
    },
    Class {
        name: "C44",
        patch: "c44-claims-see-only-their-own-limit",
        scene: "mixed_line",
    },
    Class {
        name: "C45",
        patch: "c45-releases-are-sent-once",
        scene: "releases_cut_off",
    },
    Class {
        name: "C46",
        patch: "c46-pings-prove-sessions",
        scene: "frozen_leader",
    },
    Class {
        name: "C47",
        patch: "c47-unanswered-claims-are-not-looked-for",
        scene: "claims_cut_off",
    },
    Class {
        name: "C48",
        patch: "c48-deletions-are-sent-once",
        scene: "claims_cut_off",
    },
];

impl Class {
    pub fn path(&self) -> PathBuf {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeded");
        folder.join(self.patch).with_extension("patch")
    }
}
