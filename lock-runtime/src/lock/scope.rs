//! The bodies that the current thread polls, and the locks under which they run: how a nested call learns that
//! it would wait for itself.
//!
//! A body is on the stack only while it is polled, so a spawned task inherits nothing, and neither do the branches
//! of a `join!` from each other. A task that a body polls itself, like a `LocalSet`, is not part of the body: the
//! tasks' ids differ.

use crate::limit::Limit;
use crate::lock::hold::Hold;
use std::cell::RefCell;
use std::sync::{Arc, OnceLock};
use tokio::sync::Mutex;
use tokio::task;

thread_local! {
    static BODIES: RefCell<Vec<Arc<Scope>>> = const { RefCell::new(Vec::new()) };
}

/// One body, and the holds under which it runs.
pub(crate) struct Scope {
    hold: Arc<Hold>,
    /// The holds of further keys.
    others: Vec<Arc<Hold>>,
    task: Option<task::Id>,
    /// The turns of the nested calls that run under the same holds, one at a time.
    turns: OnceLock<Arc<Mutex<()>>>,
}

impl Scope {
    /// Returns the scope of a body of the current task.
    pub(crate) fn new(hold: Arc<Hold>, others: Vec<Arc<Hold>>) -> Arc<Scope> {
        Arc::new(Scope {
            hold,
            others,
            task: task::try_id(),
            turns: OnceLock::new(),
        })
    }

    /// Puts the body on the stack until the result is dropped, also by a panic. The stack has `scope` meanwhile: a
    /// clone would cost each poll two atomic operations.
    pub(crate) fn enter(scope: &mut Option<Arc<Scope>>) -> Entered<'_> {
        // A thread that ends polls no body whose nested calls could be found.
        let _ = BODIES.try_with(|bodies| bodies.borrow_mut().extend(scope.take()));
        Entered(scope)
    }

    fn hold_of(&self, manager: usize, name: &str) -> Option<&Arc<Hold>> {
        let mut holds = std::iter::once(&self.hold).chain(&self.others);
        holds.find(|hold| hold.manager() == manager && *hold.name == *name)
    }
}

/// A body that is on the stack.
pub(crate) struct Entered<'a>(&'a mut Option<Arc<Scope>>);

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        if self.0.is_none() {
            *self.0 = BODIES
                .try_with(|bodies| bodies.borrow_mut().pop())
                .ok()
                .flatten();
        }
    }
}

/// The hold of a lock under which the current task runs.
pub(crate) struct OuterHold {
    pub(crate) hold: Arc<Hold>,
    scope: Arc<Scope>,
}

impl OuterHold {
    /// Returns the innermost hold of that lock under which the current task runs.
    pub(crate) fn find(manager: usize, name: &str) -> Option<OuterHold> {
        let find = |bodies: &RefCell<Vec<Arc<Scope>>>| {
            let bodies = bodies.borrow();
            if bodies.is_empty() {
                return None;
            }
            let task = task::try_id();
            let mut own = bodies.iter().rev().filter(|scope| scope.task == task);
            own.find_map(|scope| {
                let hold = scope.hold_of(manager, name)?.clone();
                let scope = scope.clone();
                Some(OuterHold { hold, scope })
            })
        };
        BODIES.try_with(find).ok().flatten()
    }

    /// Returns `true` if a nested call with that limit may run under this hold.
    pub(crate) fn covers(&self, limit: Limit) -> bool {
        self.hold.limit() <= limit
    }

    /// Returns the turns of the nested calls under this hold.
    pub(crate) fn turns(&self) -> Arc<Mutex<()>> {
        self.scope.turns.get_or_init(Arc::default).clone()
    }
}
