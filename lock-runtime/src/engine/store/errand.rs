//! A command that goes with others on the same lock.

use crate::engine::store::machine::{Command, Reply};
use crate::util::clock::Timestamp;

/// What a command begins with.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Start {
    /// The lock is probably free, unless it was busy a moment ago: an insertion, or a write on the idle
    /// record that is known.
    New,
    /// The last reply.
    Known,
    /// A look whether a claim was served that waits, and did at a look that was sent then.
    Look(Timestamp),
}

pub(crate) struct Errand {
    pub(crate) command: Command,
    pub(crate) start: Start,
    /// It was the holder's in a swap that had no reply.
    pub(crate) held: bool,
}

impl Errand {
    /// Records that a swap had no reply, after which the command would have had that one.
    pub(crate) fn doubt(&mut self, reply: Reply) {
        let (Reply::Left { held } | Reply::Number { held, .. }) = reply else {
            return;
        };
        self.held |= held;
    }

    /// Returns the reply after all swaps.
    pub(crate) fn resolve(&self, mut reply: Reply) -> Reply {
        if let Reply::Left { held } | Reply::Number { held, .. } = &mut reply {
            *held |= self.held;
        }
        reply
    }
}

impl Command {
    /// Returns `true` if it asks for a lock.
    pub(crate) fn asks(self) -> bool {
        matches!(self, Command::Try(_) | Command::Wait(_))
    }

    /// Returns `true` if it does not wait for others: it leaves, or may lose its lease.
    pub(crate) fn is_urgent(self) -> bool {
        matches!(self, Command::Leave(_) | Command::Renew(_))
    }
}

/// Returns the reply to a command whose claim is not there, unless it is one that makes a claim.
pub(crate) fn without_a_claim(command: Command) -> Option<Reply> {
    match command {
        Command::Renew(_) | Command::Downgrade(..) | Command::Number(..) | Command::Prove(..) => {
            Some(Reply::NotHeld)
        }
        Command::Leave(_) => Some(Reply::Left { held: false }),
        Command::Try(_) | Command::Wait(_) | Command::Take(..) => None,
    }
}
