//! The behavior of clients. The defaults are the protocol; the values that it leaves open are chosen so that
//! much can go wrong.

use crate::server::Tick;

#[derive(Clone, Copy, Debug)]
pub struct ClientRules {
    /// How long a client waits for a reply.
    pub patience: Tick,
    /// The longest time between two polls of a waiter.
    pub period: Tick,
    /// The safety margin subtracted from each lease.
    pub margin: Tick,
    /// The client tries to take the lock before it enters the queue.
    pub tries_first: bool,

    /// Deadlines count from before the request was sent, not from its reply.
    pub from_send: bool,
    /// The deadline of a grant does not count solely from its receipt.
    pub anchored: bool,
    /// A renewal counts only if its reply arrives before the deadline.
    pub renews_in_time: bool,
    /// Only the reply to the latest request counts, and none to *wait* once the lock is held.
    pub heeds_last: bool,
    /// Every attempt has a new token.
    pub fresh_tokens: bool,
    /// A waiter polls.
    pub asks_again: bool,
    /// A waiter also polls when the holder's lease ends.
    pub asks_at_the_end: bool,
    /// *Release* and *cancel* are repeated until a reply arrives.
    pub persists: bool,
    /// A client that no longer wants its grant sends *cancel*.
    pub returns_grants: bool,
    /// Canceling a token that has an unanswered request leaves a tombstone.
    pub buries: bool,
    /// A repeated *wait* carries the time of its expiry.
    pub voids: bool,
    /// A grant is renewed at once.
    pub renews_grants: bool,
    /// Requests on a new connection arrive after all earlier ones.
    pub in_order: bool,
}

impl Default for ClientRules {
    fn default() -> Self {
        ClientRules {
            patience: 2,
            period: 2,
            margin: 0,
            tries_first: false,
            from_send: true,
            anchored: true,
            renews_in_time: true,
            heeds_last: true,
            fresh_tokens: true,
            asks_again: true,
            asks_at_the_end: true,
            persists: true,
            returns_grants: true,
            buries: true,
            voids: true,
            renews_grants: true,
            in_order: true,
        }
    }
}
