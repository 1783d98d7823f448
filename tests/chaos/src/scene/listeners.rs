//! Refused subscriptions, and messages that no server would send.

use super::setting::{SOON, Setting, plain, short, step};
use crate::fault::Kind;
use crate::instructions::{BodyLength, Workload};
use crate::journal::CallKind;
use crate::plan::{Profile, Target};
use lock_test_support::time::millis;

/// One fault, and none after it: a process that no longer receives messages waits while others take their
/// turns.
fn refused(kind: Kind, lasts: u64) -> Setting {
    Setting {
        ttl: millis(6000),
        keys: 1,
        processes: 6,
        workload: Workload {
            tasks: 2,
            calls: vec![CallKind::Waits, CallKind::Guard],
            wait_ms: Some(3000),
            pace: BodyLength::Held { ms: 40 },
            hand_over_ms: Some(0),
            ..plain()
        },
        lasts: millis(11_000),
        gap: Some(SOON),
        order: true,
        account: true,
        ..Setting::scripted(vec![step(1000, lasts, kind, Target::Server(0))])
    }
}

pub fn busy_when_subscribing() -> Setting {
    refused(Kind::BusyReplies, 400)
}

pub fn subscriptions_refused() -> Setting {
    refused(Kind::SubscribeRefused, 1200)
}

pub fn channels_denied() -> Setting {
    refused(Kind::ChannelsDenied, 1200)
}

pub fn scripts_denied() -> Setting {
    refused(Kind::ScriptsDenied, 1200)
}

pub fn nonsense() -> Setting {
    Setting {
        workload: short(),
        profile: Profile {
            pause: millis(150),
            ..Profile::only(&[Kind::Nonsense, Kind::ClientsKilled])
        },
        ..Setting::of(&[])
    }
}
