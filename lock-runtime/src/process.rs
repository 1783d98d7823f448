//! The identity of a manager among all that use a server.

use std::fmt;
use uuid::Uuid;

/// The number of random bits.
pub(crate) const BITS: u32 = 28;

/// Identifies a [`LockManager`](crate::LockManager), by 28 random bits that it draws when it connects. Of
/// 1,000 managers, two have the same with a probability of 0.2 %: it is shown to people, and decides nothing.
///
/// [`LockManager::process_id`](crate::LockManager::process_id) returns it, so that a service can log it when
/// it starts; a call that finds the lock held by that manager finds it in [`Holder::Process`](crate::Holder).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProcessId(pub(crate) u32);

impl ProcessId {
    pub(crate) fn random() -> ProcessId {
        let random = Uuid::new_v4().as_u128() & ((1 << BITS) - 1);
        ProcessId(random as u32)
    }

    /// Parses what [`Display`](fmt::Display) writes, and nothing else.
    #[cfg(any(
        feature = "etcd",
        feature = "postgres",
        feature = "redis",
        feature = "store",
        feature = "zookeeper"
    ))]
    pub(crate) fn parse(text: &str) -> Option<ProcessId> {
        let id = ProcessId(u32::from_str_radix(text, 16).ok()?);
        (id.to_string() == text && id.0 >> BITS == 0).then_some(id)
    }
}

/// Seven hexadecimal digits.
impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:07x}", self.0)
    }
}

#[cfg(all(test, feature = "etcd"))]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_parsed_as_it_is_displayed() {
        for id in [0, 0x7be_01c5, 0xfff_ffff].map(ProcessId) {
            assert_eq!(ProcessId::parse(&id.to_string()), Some(id));
        }
        for text in [
            "", "7be01c", "7BE01C5", "+be01c5", "17be01c5", "7be01cg", "7be01c5 ",
        ] {
            assert_eq!(ProcessId::parse(text), None, "{text:?}");
        }
    }
}
