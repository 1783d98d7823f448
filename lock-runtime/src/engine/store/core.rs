//! What all parts of the engine share.

use crate::engine::common::batches::Batches;
use crate::engine::event::EventHandler;
use crate::engine::store::database::Database;
use crate::engine::store::errand::Errand;
use crate::engine::store::hearing::Hearing;
use crate::engine::store::keys::Keys;
use crate::engine::store::known::{Known, KnownLocks};
use crate::engine::store::listening::Listening;
use crate::engine::store::machine::Reply;
use crate::engine::store::observer::{Seen, ServerClock};
use crate::engine::store::schedule::Looks;
use crate::engine::token::Token;
use crate::own_store::Store;
use crate::process::ProcessId;
use crate::util::clock::Clock;
use crate::util::io_thread::IoThread;
use crate::util::sync::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::mpsc;

pub(crate) struct Core {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) database: Option<Arc<dyn Database>>,
    pub(crate) io: IoThread,
    pub(crate) clock: Clock,
    pub(crate) handler: EventHandler,
    pub(crate) keys: Keys,
    pub(crate) known: KnownLocks,
    pub(crate) server_clock: Mutex<ServerClock>,
    pub(crate) listening: Arc<Listening>,
    pub(crate) process: ProcessId,
    /// The claims that wait.
    pub(crate) waiting: Mutex<HashMap<Token, Looks>>,
    pub(crate) hearing: Hearing,
    pub(crate) errands: Batches<Errand, Reply>,
    /// Texts that this process is about to leave for others.
    pub(crate) texts: Batches<Arc<str>, ()>,
    /// Where the bell rings, too, once this process may keep locks.
    pub(crate) recalls: OnceLock<mpsc::Sender<()>>,
}

impl Core {
    /// Returns the time until the server's clock shows that time, if what it shows is known.
    pub(crate) fn time_until(&self, micros: u64) -> Option<Duration> {
        let latest = self.server_clock.lock().latest(self.clock.now())?;
        Some(Duration::from_micros(micros.saturating_sub(latest)))
    }

    pub(crate) fn judge<'a>(&self, known: &'a Known) -> Seen<'a> {
        Seen {
            observer: &known.observer,
            now: self.clock.now(),
            time: known.time,
            clock: *self.server_clock.lock(),
            ended: &[],
        }
    }
}
