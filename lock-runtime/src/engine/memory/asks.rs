//! Asks all managers of a store.

use crate::engine::event::{EngineEvent, EventHandler};
use crate::util::sync::Mutex;
use std::sync::{Arc, Weak};

/// A handler that may be gone.
type Listener = Weak<dyn Fn(EngineEvent) + Send + Sync>;

/// Those that are asked.
#[derive(Default)]
pub(crate) struct Listeners(Mutex<Vec<Listener>>);

impl Listeners {
    /// Lets the handler receive what is asked, as long as it exists.
    pub(crate) fn add(&self, handler: &EventHandler) {
        let mut listeners = self.0.lock();
        listeners.retain(|known| known.strong_count() > 0);
        listeners.push(Arc::downgrade(handler));
    }

    pub(crate) fn ask(&self, text: &str) {
        let text: Arc<str> = text.into();
        let known = self.0.lock();
        let listeners: Vec<_> = known.iter().filter_map(Weak::upgrade).collect();
        drop(known);
        for listener in listeners {
            listener(EngineEvent::Asked(text.clone()));
        }
    }
}
