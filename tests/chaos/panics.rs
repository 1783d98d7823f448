//! Panics in a worker: those that are meant, and those that must not be.

use std::panic::PanicHookInfo;
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
        if panic.payload().downcast_ref() != Some(&ON_PURPOSE) && !is_the_first_probe(panic) {
            let text = panic.to_string();
            journal.write(0, What::Panicked { text });
            loud(panic);
        }
    }));
}

/// tokio tells that a runtime has no I/O by a panic only: the library's thread finds it out once.
fn is_the_first_probe(panic: &PanicHookInfo<'_>) -> bool {
    static PROBED: AtomicBool = AtomicBool::new(false);
    let says_so = panic.to_string().contains("IO is disabled");
    is_io_thread() && says_so && !PROBED.swap(true, Relaxed)
}

fn is_io_thread() -> bool {
    std::thread::current().name() == Some("lock-io")
}

/// Once it is armed a subscriber panics on the library's I/O thread: at every other event of the library,
/// and once at one of what the library uses.
pub fn in_subscriber() {
    tracing_subscriber::registry().with(Panics).init();
}

/// From now on.
pub fn arm() {
    PANICS_NEXT.store(true, Relaxed);
    PANICS_BELOW.store(true, Relaxed);
    ARMED.store(true, Relaxed);
}

static ARMED: AtomicBool = AtomicBool::new(false);
static PANICS_NEXT: AtomicBool = AtomicBool::new(false);
static PANICS_BELOW: AtomicBool = AtomicBool::new(false);

struct Panics;

impl<S: Subscriber> Layer<S> for Panics {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if !ARMED.load(Relaxed) || !is_io_thread() {
            return;
        }
        let panics = match event.metadata().target().starts_with("lock_runtime") {
            true => PANICS_NEXT.fetch_xor(true, Relaxed),
            false => PANICS_BELOW.swap(false, Relaxed),
        };
        if panics {
            std::panic::panic_any(ON_PURPOSE);
        }
    }
}
