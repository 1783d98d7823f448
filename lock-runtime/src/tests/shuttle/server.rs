//! A lock server some way off, and what came of its grants.

use crate::api::manager::{Desk, LockManager, ear};
use crate::config::Config;
use crate::engine::event::{Ear, News};
use crate::engine::memory::MemoryEngine as Memory;
use crate::engine::memory::store::Store;
use crate::engine::token::Token;
use crate::lock::hold::Hold;
use crate::tests::shuttle::delayed_engine::Distant;
use crate::tests::shuttle::process::Process;
use crate::util::inbox::Inbox;
use crate::util::io_thread::Io;
use crate::util::shuttle::virtual_time;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub(super) const TTL: Duration = Duration::from_secs(30);

pub(super) struct Server {
    store: Arc<Store>,
    book: Arc<Book>,
}

/// What came of each grant, and who holds locks.
#[derive(Default)]
pub(super) struct Book {
    grants: Mutex<HashMap<Token, Grant>>,
    pub(super) holders: Mutex<Vec<Arc<Hold>>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Grant {
    pub(super) granted: bool,
    /// How often its release was asked for.
    pub(super) releases: usize,
    /// How often it was given back by who left the queue.
    pub(super) left: usize,
}

impl Server {
    pub(super) fn start() -> Server {
        Server {
            store: Store::with_clock(virtual_time::clock()),
            book: Arc::default(),
        }
    }

    pub(super) fn process(&self) -> Arc<Process> {
        self.process_with(false, 0)
    }

    /// A process whose requests go over connections of its own runtimes.
    pub(super) fn process_at_home(&self) -> Arc<Process> {
        self.process_with(true, 0)
    }

    /// The same, with a connection that is broken for one release.
    pub(super) fn process_with_a_broken_home(&self) -> Arc<Process> {
        self.process_with(true, 1)
    }

    /// A process whose renewals may get no answer.
    pub(super) fn process_that_loses_answers(&self) -> Arc<Process> {
        self.process_by(Distant::losing_answers)
    }

    fn process_with(&self, at_home: bool, mute: usize) -> Arc<Process> {
        self.process_by(|memory, book| Distant::new(memory, book, at_home, mute))
    }

    fn process_by(&self, engine: impl FnOnce(Memory, Arc<Book>) -> Distant) -> Arc<Process> {
        let desk = Desk::default();
        let memory = Memory::new(self.store.clone(), self.post(ear(&desk)));
        let engine = engine(memory, self.book.clone());
        let config = Config::new("memory://").prefix("").ttl(TTL);
        let io = Io::start().unwrap();
        let server = "distant".into();
        let locks = LockManager::new(io, virtual_time::clock(), Arc::new(engine), server, &config);
        let _ = desk.set(Arc::downgrade(&locks.shared));
        Arc::new(Process::new(locks, self.book.clone()))
    }

    /// News takes its time.
    fn post(&self, ear: Ear) -> Ear {
        let letters = Arc::new(Inbox::new());
        let (sent, book) = (letters.clone(), self.book.clone());
        crate::util::shuttle::spawn(async move {
            loop {
                ear(letters.next().await);
            }
        });
        Arc::new(move |news| {
            if let News::Granted(grant) = &news {
                book.note(grant.token, |grant| grant.granted = true);
            }
            sent.put(news);
        })
    }

    pub(super) fn is_free(&self) -> bool {
        self.store.is_idle()
    }

    /// Nothing is left, and each grant was given back once.
    pub(super) fn is_done_with(&self) {
        self.has_nothing_left();
        for grant in self.book.grants.lock().unwrap().values() {
            let once = !grant.granted || grant.releases + grant.left == 1;
            assert!(once, "not given back once: {grant:?}");
        }
    }

    /// Nothing is left, though leases may have run out.
    pub(super) fn has_nothing_left(&self) {
        assert!(self.is_free(), "something is left on the server");
        for grant in self.book.grants.lock().unwrap().values() {
            assert!(
                grant.releases + grant.left <= 1,
                "released twice: {grant:?}"
            );
        }
    }

    /// Nobody has asked for a release who was granted nothing.
    pub(super) fn was_asked_for_no_more(&self) {
        for grant in self.book.grants.lock().unwrap().values() {
            let in_vain = !grant.granted && grant.releases > 0;
            assert!(!in_vain, "released, and never granted");
        }
    }

    /// How many locks were granted.
    pub(super) fn grants(&self) -> usize {
        let grants = self.book.grants.lock().unwrap();
        grants.values().filter(|grant| grant.granted).count()
    }
}

impl Book {
    pub(super) fn note(&self, token: Token, what: impl FnOnce(&mut Grant)) {
        what(self.grants.lock().unwrap().entry(token).or_default());
    }
}
