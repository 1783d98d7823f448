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

/// Once it is armed a subscriber panics at every other event that is logged on the library's I/O thread.
pub fn in_subscriber() {
    tracing_subscriber::registry().with(Panics).init();
}

/// From now on.
pub fn arm() {
    PANICS_NEXT.store(true, Relaxed);
    ARMED.store(true, Relaxed);
}

static ARMED: AtomicBool = AtomicBool::new(false);
static PANICS_NEXT: AtomicBool = AtomicBool::new(false);

struct Panics;

impl<S: Subscriber> Layer<S> for Panics {
    fn on_event(&self, _: &Event<'_>, _: Context<'_, S>) {
        let thread = std::thread::current();
        let is_armed = ARMED.load(Relaxed) && thread.name() == Some("lock-io");
        if is_armed && PANICS_NEXT.fetch_xor(true, Relaxed) {
            std::panic::panic_any(ON_PURPOSE);
        }
    }
}
