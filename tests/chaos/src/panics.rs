//! Panics in a worker: intended and unintended ones.

use std::panic::PanicHookInfo;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

use crate::calls::ON_PURPOSE;
use crate::journal::{EventKind, Journal};

/// Records every panic that the worker does not cause on purpose, wherever it may be caught.
pub fn record(journal: Arc<Journal>) {
    let loud = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if panic.payload().downcast_ref() != Some(&ON_PURPOSE) && !is_the_first_probe(panic) {
            let text = panic.to_string();
            journal.write(0, EventKind::Panicked { text });
            loud(panic);
        }
    }));
}

/// Returns `true` for the first panic by which tokio reports a runtime without I/O. There is no other way to
/// detect that; the library's thread does it once.
fn is_the_first_probe(panic: &PanicHookInfo<'_>) -> bool {
    static PROBED: AtomicBool = AtomicBool::new(false);
    let says_so = panic.to_string().contains("IO is disabled");
    is_io_thread() && says_so && !PROBED.swap(true, Relaxed)
}

fn is_io_thread() -> bool {
    std::thread::current().name() == Some("lock-io")
}

/// Installs a subscriber that, once armed, panics on the library's I/O thread: at every other event of the
/// library, and once at an event of a dependency.
pub fn in_subscriber() {
    tracing_subscriber::registry().with(Panics).init();
}

/// Makes the subscriber panic from now on.
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
