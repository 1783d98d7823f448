//! Routes an engine's events to the task that waits for a claim.

use crate::engine::event::{EngineEvent, Grant};
use crate::engine::token::Token;
use crate::util::inbox::Inbox;
use crate::util::sync::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// An event for the remote wait of a local queue.
#[derive(Debug)]
pub(crate) enum ClaimEvent {
    Granted(Grant),
    /// The claim is now at the front of the server queue.
    AtFront(Token),
    /// Other processes wait too.
    MoreWaiters,
    /// The local queue has changed, or an event may have been missed.
    Wake,
}

/// The inbox for the events of each claim, and the name of its lock.
type Inboxes = HashMap<Token, (Arc<Inbox<ClaimEvent>>, Arc<str>)>;

/// The claims of this process that wait in server queues or were granted a lock, with the inboxes of their
/// tasks.
#[derive(Default)]
pub(crate) struct ClaimEvents {
    inboxes: Mutex<Inboxes>,
    /// How many they are, to be known without the mutex: most locks are acquired without a wait.
    count: AtomicUsize,
}

impl ClaimEvents {
    /// Routes the events of a claim on that lock to `inbox` from now on.
    pub(crate) fn register(&self, token: Token, name: Arc<str>, inbox: Arc<Inbox<ClaimEvent>>) {
        let mut inboxes = self.inboxes();
        inboxes.insert(token, (inbox, name));
        self.count.store(inboxes.len(), Ordering::Release);
    }

    pub(crate) fn unregister(&self, token: Token) {
        // A claim that was registered is seen: the caller knows it from the task that registered it.
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut inboxes = self.inboxes();
        inboxes.remove(&token);
        self.count.store(inboxes.len(), Ordering::Release);
    }

    /// Routes an event of one claim. Returns a grant for which no claim is registered.
    pub(crate) fn dispatch(&self, event: EngineEvent) -> Option<Grant> {
        let inboxes = self.inboxes();
        let (token, event) = match event {
            EngineEvent::Granted(grant) => match inboxes.get(&grant.token) {
                Some((inbox, _)) => {
                    inbox.push(ClaimEvent::Granted(grant));
                    return None;
                }
                None => return Some(grant),
            },
            EngineEvent::AtFront(token) => (token, ClaimEvent::AtFront(token)),
            EngineEvent::MayBeFree(token) => (token, ClaimEvent::Wake),
            EngineEvent::MoreWaiters(token) => (token, ClaimEvent::MoreWaiters),
            // Concerns no particular claim.
            EngineEvent::Asked(_)
            | EngineEvent::Recalled(_)
            | EngineEvent::Resubscribed
            | EngineEvent::ConnectionBroken(..)
            | EngineEvent::MasterChanged
            | EngineEvent::ConnectionMended(_) => return None,
        };
        let (inbox, _) = inboxes.get(&token)?;
        match event {
            // They come faster than a claim that waits can look.
            ClaimEvent::Wake => inbox.push_unless(event, |it| matches!(it, ClaimEvent::Wake)),
            _ => inbox.push(event),
        }
        None
    }

    /// Returns claims with the names of their locks, `most` of them at the most, and how many there are.
    pub(crate) fn some(&self, most: usize) -> (Vec<(Token, Arc<str>)>, usize) {
        let inboxes = self.inboxes();
        let claims = inboxes.iter().take(most);
        let claims = claims.map(|(token, (_, name))| (*token, name.clone()));
        (claims.collect(), inboxes.len())
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.inboxes().is_empty()
    }

    fn inboxes(&self) -> MutexGuard<'_, Inboxes> {
        self.inboxes.lock()
    }
}
