//! Panics in a worker: those that are meant, and those that must not be.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

use crate::calls::ON_PURPOSE;
use crate::event::{Journal, What};

/// Writes each down that the worker does not cause on purpose, wherever it may be caught.
pub fn record(journal: Arc<Journal>) {
    let loud = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if panic.payload().downcast_ref() != Some(&ON_PURPOSE) {
            let text = panic.to_string();
            journal.write(0, What::Panicked { text });
            loud(panic);
        }
    }));
}

/// From now on a subscriber panics at every other event that the library logs on its I/O thread.
pub fn in_subscriber() {
    tracing_subscriber::registry()
        .with(Panics(AtomicBool::new(false)))
        .init();
}

struct Panics(AtomicBool);

impl<S: Subscriber> Layer<S> for Panics {
    fn on_event(&self, _: &Event<'_>, _: Context<'_, S>) {
        let thread = std::thread::current();
        if thread.name() == Some("lock-io") && !self.0.fetch_xor(true, Relaxed) {
            std::panic::panic_any(ON_PURPOSE);
        }
    }
}
