//! Bells: whoever gives a lock to a waiter rings for its process, if the store can; else that finds out when
//! it looks.

use crate::engine::event::EngineEvent;
use crate::engine::store::core::Core;
use crate::engine::store::record::Record;
use crate::engine::token::Token;
use crate::own_store::Bells;
use crate::process::ProcessId;
use crate::util::panics::contain;
use std::sync::Arc;
use std::time::Duration;

impl Core {
    /// Lets all claims of this process that wait look whenever the bell rings.
    pub(crate) fn hear(self: &Arc<Self>) {
        let listen = |bells: &dyn Bells| {
            let core = Arc::downgrade(self);
            let bell = move || {
                if let Some(core) = core.upgrade() {
                    core.hearing.heard();
                    let waiting: Vec<_> = core.waiting.lock().keys().copied().collect();
                    for token in waiting {
                        (core.handler)(EngineEvent::MayBeFree(token));
                    }
                    if let Some(recalls) = core.recalls.get() {
                        // One more suffices for all that ring meanwhile.
                        let _ = recalls.try_send(());
                    }
                }
            };
            bells.listen(&self.process.to_string(), Arc::new(bell));
        };
        if self.hearing.begins() {
            self.with_bells(listen);
        }
    }

    /// Returns `true` if this process would hear a bell.
    pub(crate) fn hears(&self) -> bool {
        self.with_bells(|bells| bells.hears()) == Some(true)
    }

    /// Calls the store's bells under no mutex, since they may ring at once. Returns `None` if it has none, or
    /// they panic.
    fn with_bells<T>(&self, call: impl FnOnce(&dyn Bells) -> T) -> Option<T> {
        contain(|| self.store.bells().map(call)).flatten()
    }

    /// Rings for those that hold the lock since this step, and for the one that holds it if another process
    /// begins to wait: as long as it knows of none, it hands the lock to its own callers.
    pub(crate) fn ring(&self, before: &Record, after: &Record) {
        let is_new = |token| before.holder(token).is_none();
        let granted = after.holders.iter();
        let granted = granted.filter(|it| it.granted && is_new(it.token));
        granted.for_each(|it| self.ring_for(it.token));
        if let [holder] = &after.holders[..] {
            let process = holder.token.process();
            let is_wanted = |record: &Record| {
                let mut waiters = record.waiters.iter();
                waiters.any(|it| it.token.process() != process)
            };
            // A recall rings once it is written.
            if !holder.token.is_recallable() && is_wanted(after) && !is_wanted(before) {
                self.ring_for(holder.token);
            }
        }
    }

    pub(crate) fn ring_for(&self, token: Token) {
        match token.process() {
            own if own == self.process => (self.handler)(EngineEvent::MayBeFree(token)),
            other => self.ring_process(other),
        }
    }

    pub(crate) fn ring_process(&self, process: ProcessId) {
        self.with_bells(|bells| bells.ring(&process.to_string()));
    }

    /// Returns the pause before the next look of a waiter, which would be that long without bells.
    pub(crate) fn pause_with_bells(&self, pause: Duration) -> Duration {
        match self.hears() {
            true => self.hearing.pause(pause),
            false => pause,
        }
    }
}
