//! The bodies that the current thread polls, and the locks under which they run: how a nested call learns
//! that it would wait for itself.
//!
//! A body is on the stack only while it is polled, so a spawned task inherits nothing, and neither do the
//! branches of a `join!` from each other. A task that a body polls itself, like a `LocalSet`, is not part of
//! the body: the tasks' ids differ.

use crate::limit::Limit;
use crate::lock::hold::Hold;
use std::cell::RefCell;
use std::sync::{Arc, OnceLock};
use tokio::sync::RwLock;
use tokio::task;

thread_local! {
    static BODIES: RefCell<Vec<OnStack>> = const { RefCell::new(Vec::new()) };
}

struct OnStack {
    scope: Arc<Scope>,
    /// The task that polls the body. A body may move from task to task.
    task: Option<task::Id>,
}

/// One body, and the holds under which it runs.
pub(crate) struct Scope {
    hold: ScopedHold,
    /// The holds of further keys.
    others: Vec<ScopedHold>,
}

/// A hold, and the turns of the nested calls that run under it: one at a time, or those that read.
struct ScopedHold {
    hold: Arc<Hold>,
    turns: OnceLock<Arc<RwLock<()>>>,
}

impl ScopedHold {
    fn new(hold: Arc<Hold>) -> ScopedHold {
        ScopedHold {
            hold,
            turns: OnceLock::new(),
        }
    }
}

impl Scope {
    /// Returns the scope of a body.
    pub(crate) fn new(hold: Arc<Hold>, others: impl Iterator<Item = Arc<Hold>>) -> Arc<Scope> {
        Arc::new(Scope {
            hold: ScopedHold::new(hold),
            others: others.map(ScopedHold::new).collect(),
        })
    }

    /// Puts the body on the stack until the result is dropped, also by a panic. The stack has `scope`
    /// meanwhile: a clone would cost each poll two atomic operations.
    pub(crate) fn enter(scope: &mut Option<Arc<Scope>>) -> Entered<'_> {
        // A thread that ends polls no body whose nested calls could be found.
        let _ = BODIES.try_with(|bodies| {
            let task = task::try_id();
            let entry = scope.take().map(|scope| OnStack { scope, task });
            bodies.borrow_mut().extend(entry);
        });
        Entered(scope)
    }

    fn hold_of(&self, manager: usize, name: &str) -> Option<&ScopedHold> {
        let mut holds = std::iter::once(&self.hold).chain(&self.others);
        holds.find(|it| it.hold.manager() == manager && *it.hold.name == *name)
    }
}

/// A body that is on the stack.
pub(crate) struct Entered<'a>(&'a mut Option<Arc<Scope>>);

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        if self.0.is_none() {
            let last = BODIES.try_with(|bodies| bodies.borrow_mut().pop());
            *self.0 = last.ok().flatten().map(|last| last.scope);
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
        let find = |bodies: &RefCell<Vec<OnStack>>| {
            let bodies = bodies.borrow();
            if bodies.is_empty() {
                return None;
            }
            let task = task::try_id();
            let own = bodies.iter().rev().filter(|body| body.task == task);
            let mut own = own.map(|body| &body.scope);
            own.find_map(|scope| {
                let hold = scope.hold_of(manager, name)?.hold.clone();
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
    pub(crate) fn turns(&self) -> Arc<RwLock<()>> {
        let scoped = self.scope.hold_of(self.hold.manager(), &self.hold.name);
        let turns = scoped.map(|it| it.turns.get_or_init(Arc::default).clone());
        turns.unwrap_or_default()
    }
}
