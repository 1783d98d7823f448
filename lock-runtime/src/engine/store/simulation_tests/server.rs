//! A server behind a bad network: it refuses, loses requests and replies, carries writes out late, and shows
//! what is out of date.

use crate::engine::store::database::{Database, Finding, Proofs};
use crate::engine::store::record::Record;
use crate::engine::token::Token;
use crate::own_store::{Loaded, Store, StoreError, StoreFuture, Swapped, Version};
use lock_test_support::rng::Rng;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::{Instant, sleep};

pub(crate) const LOCK: &str = "lock:row";
/// One of that many requests suffers each fault.
const FAULTS: u64 = 40;
/// How long loads show what is out of date.
const LAG: u64 = 1_000;
/// The longest delay of a fault, more than a lease or a call of waiters lasts.
const LATEST: u64 = 8_000;

type State = Option<(Vec<u8>, Version)>;

#[derive(Default)]
struct Shelf {
    /// All states of each record, and since when, the present one last.
    records: HashMap<String, Vec<(Instant, State)>>,
    versions: u64,
    /// The proofs that have not ended, and how many transactions have each.
    proofs: HashMap<u64, usize>,
    ended: HashSet<Token>,
}

impl Shelf {
    fn record(&self, name: &str) -> Record {
        let states = self.records.get(name);
        let present = states.and_then(|states| states.last()?.1.as_ref());
        present.map_or_else(Record::default, |(record, _)| {
            Record::decode(record).expect("it is readable")
        })
    }

    /// Fails if a claim is there that has ended.
    fn check(&self, name: &str) {
        let record = self.record(name);
        let holders = record.holders.iter().filter(|it| !it.left);
        let waiters = record.waiters.iter().map(|it| it.token);
        let mut tokens = holders.map(|it| it.token).chain(waiters);
        let back = tokens.find(|it| self.ended.contains(it));
        assert_eq!(back, None, "it is back: {record:?}");
    }
}

#[derive(Clone)]
pub(crate) struct Server {
    shelf: Arc<Mutex<Shelf>>,
    rng: Arc<Mutex<Rng>>,
    pub(crate) is_faulty: Arc<AtomicBool>,
    pub(crate) faults: Arc<AtomicU64>,
    start: Instant,
    /// The rate of its clock, if it shows that.
    rate: Option<f64>,
    loads_the_present: bool,
    /// By how many seconds its clock was set forward.
    pub(crate) set_by: Arc<AtomicU64>,
}

enum Fate {
    Done,
    Refused,
    Lost,
    ReplyLost,
    Late(Duration),
}

impl Server {
    pub(crate) fn new(mut rng: Rng, rate: f64) -> Server {
        let shows_time = rng.one_in(2);
        Server {
            shelf: Arc::default(),
            is_faulty: Arc::new(AtomicBool::new(true)),
            faults: Arc::default(),
            start: Instant::now(),
            rate: shows_time.then_some(rate),
            loads_the_present: rng.one_in(2),
            set_by: Arc::default(),
            rng: Arc::new(Mutex::new(rng)),
        }
    }

    /// Returns a server without faults, which shows its time.
    pub(crate) fn faultless() -> Server {
        let server = Server {
            rate: Some(1.0),
            ..Server::new(Rng::random(), 1.0)
        };
        server.is_faulty.store(false, Relaxed);
        server
    }

    pub(crate) fn is_faulty(&self) -> bool {
        self.is_faulty.load(Relaxed)
    }

    fn below(&self, sides: u64) -> u64 {
        self.rng.lock().unwrap().below(sides)
    }

    fn fate(&self) -> Fate {
        if !self.is_faulty.load(Relaxed) {
            return Fate::Done;
        }
        let fate = match self.below(FAULTS) {
            0 => Fate::Refused,
            1 => Fate::Lost,
            2 => Fate::ReplyLost,
            3 | 4 => Fate::Late(Duration::from_millis(self.below(LATEST))),
            _ => return Fate::Done,
        };
        self.faults.fetch_add(1, Relaxed);
        fate
    }

    async fn travel(&self) {
        let longest = if self.below(20) == 0 { 300 } else { 4 };
        sleep(Duration::from_millis(self.below(longest))).await;
    }

    /// Carries a request out, or not.
    async fn answer<T: Send + 'static>(
        &self,
        request: impl FnOnce(&Server) -> T + Send + 'static,
    ) -> Result<T, StoreError> {
        self.travel().await;
        match self.fate() {
            Fate::Done => {
                let reply = request(self);
                self.travel().await;
                Ok(reply)
            }
            Fate::Refused => Err(StoreError::not_done("it is busy")),
            Fate::Lost => Err(StoreError::unknown("the request is lost")),
            Fate::ReplyLost => {
                request(self);
                Err(StoreError::unknown("the reply is lost"))
            }
            Fate::Late(delay) => {
                let server = self.clone();
                let late = tokio::spawn(async move {
                    sleep(delay).await;
                    request(&server)
                });
                // Some callers wait for it, and others learn at once that the connection has broken.
                match self.below(2) {
                    0 => Err(StoreError::unknown("the request is late")),
                    _ => late.await.map_err(StoreError::unknown),
                }
            }
        }
    }

    fn loaded(&self, state: State) -> Loaded {
        let loaded = state.map_or_else(Loaded::nothing, |(record, version)| {
            Loaded::found(record, version)
        });
        let Some(rate) = self.rate else {
            return loaded;
        };
        let set_to = Duration::from_secs(1_000_000 + self.set_by.load(Relaxed));
        loaded.at(set_to + self.start.elapsed().mul_f64(rate))
    }

    fn find(&self, name: &str) -> Loaded {
        let shelf = self.shelf.lock().unwrap();
        let lag = match self.loads_the_present {
            true => 0,
            false => self.below(LAG),
        };
        let shown_at = Instant::now() - Duration::from_millis(lag);
        let mut states = shelf.records.get(name).into_iter().flatten().rev();
        let shown = states.find(|(since, _)| *since <= shown_at);
        self.loaded(shown.and_then(|(_, state)| state.clone()))
    }

    fn replace(&self, name: &str, expected: Option<Version>, record: Option<Vec<u8>>) -> Swapped {
        if self.is_faulty() && self.below(FAULTS) == 0 {
            // Another client has it locked.
            return Swapped::Conflict(self.find(name));
        }
        let mut shelf = self.shelf.lock().unwrap();
        shelf.versions += 1;
        let version = Version::new(shelf.versions.to_be_bytes());
        let states = shelf.records.entry(name.to_owned()).or_default();
        let present = states.last().and_then(|(_, state)| state.clone());
        if present.as_ref().map(|(_, version)| version) != expected.as_ref() {
            return Swapped::Conflict(self.loaded(present));
        }
        let state = record.map(|record| (record, version.clone()));
        states.push((Instant::now(), state));
        shelf.check(name);
        Swapped::Done(version)
    }

    /// Returns the record of that name.
    pub(crate) fn record(&self, name: &str) -> Record {
        self.shelf.lock().unwrap().record(name)
    }

    /// The token neither holds nor waits for a lock from now on.
    pub(crate) fn ends_for_good(&self, token: Token) {
        let mut shelf = self.shelf.lock().unwrap();
        shelf.ended.insert(token);
        shelf.check(LOCK);
    }

    /// Begins a transaction that relies on a proof; fails if that has ended.
    pub(crate) fn begin(&self, proof: u64) -> bool {
        let mut shelf = self.shelf.lock().unwrap();
        let transactions = shelf.proofs.get_mut(&proof);
        transactions.map(|count| *count += 1).is_some()
    }

    pub(crate) fn commit(&self, proof: u64) {
        let mut shelf = self.shelf.lock().unwrap();
        *shelf.proofs.get_mut(&proof).expect("it has not ended") -= 1;
    }
}

impl Store for Server {
    fn load<'a>(&'a self, name: &'a str) -> StoreFuture<'a, Loaded> {
        let name = name.to_owned();
        Box::pin(self.answer(move |server| server.find(&name)))
    }

    fn swap<'a>(
        &'a self,
        name: &'a str,
        expected: Option<&'a Version>,
        record: Option<&'a [u8]>,
    ) -> StoreFuture<'a, Swapped> {
        let (name, expected) = (name.to_owned(), expected.cloned());
        let record = record.map(<[u8]>::to_vec);
        Box::pin(self.answer(move |server| server.replace(&name, expected, record)))
    }

    fn loads_the_present(&self) -> bool {
        self.loads_the_present
    }
}

impl Database for Server {
    fn findings(&self) -> StoreFuture<'_, Vec<Finding>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }
}

impl Proofs for Server {
    fn refuses(&self) -> Option<&'static str> {
        None
    }

    fn make<'a>(&'a self, _: &'a str, number: u64) -> StoreFuture<'a, ()> {
        Box::pin(self.answer(move |server| {
            let mut shelf = server.shelf.lock().unwrap();
            shelf.proofs.insert(number, 0);
        }))
    }

    fn is_there<'a>(&'a self, _: &'a str, number: u64) -> StoreFuture<'a, bool> {
        Box::pin(self.answer(move |server| {
            let shelf = server.shelf.lock().unwrap();
            shelf.proofs.contains_key(&number)
        }))
    }

    fn end<'a>(&'a self, _: &'a str, number: u64) -> StoreFuture<'a, bool> {
        Box::pin(self.answer(move |server| {
            let mut shelf = server.shelf.lock().unwrap();
            match shelf.proofs.get(&number) {
                Some(1..) => false,
                _ => {
                    shelf.proofs.remove(&number);
                    true
                }
            }
        }))
    }

    fn statement(&self, proofs: &[(Arc<str>, u64)]) -> String {
        proofs[0].1.to_string()
    }
}
