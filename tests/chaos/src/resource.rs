//! The resource that the locks protect: accounts behind a socket, with a record of every write. A
//! writer that is stopped in mid-step blocks no other writer.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;

use serde::{Deserialize, Serialize};

use crate::clock;

/// A requested write and its result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Write {
    /// The time at which it was carried out or refused.
    pub at: u64,
    pub worker: u32,
    pub call: u64,
    pub key: u32,
    /// The fencing token, or zero.
    pub token: u64,
    /// The version that the writer had read before.
    pub read: u64,
    /// The version at the time of the write.
    pub found: u64,
    pub accepted: bool,
}

#[derive(Serialize, Deserialize)]
enum Request {
    Read { key: u32, token: u64 },
    Write(Write),
}

/// The version before the request; `None` if the token is too old.
type Reply = Option<u64>;

pub struct Resource {
    ledger: Arc<Mutex<Ledger>>,
    socket: PathBuf,
    is_closed: Arc<AtomicBool>,
}

struct Ledger {
    accounts: BTreeMap<u32, State>,
    writes: Vec<Write>,
    /// `true` if old tokens are refused.
    compares: bool,
}

#[derive(Clone, Copy, Default)]
struct State {
    version: u64,
    /// The greatest token that was seen.
    token: u64,
}

impl Resource {
    pub fn open(directory: &Path, compares: bool) -> Self {
        let ledger = Arc::new(Mutex::new(Ledger {
            accounts: BTreeMap::new(),
            writes: Vec::new(),
            compares,
        }));
        let socket = directory.join("book.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let is_closed = Arc::new(AtomicBool::new(false));
        let (theirs, closed) = (ledger.clone(), is_closed.clone());
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if closed.load(Relaxed) {
                    return;
                }
                let ledger = theirs.clone();
                thread::spawn(move || serve(&ledger, client));
            }
        });
        Self {
            ledger,
            socket,
            is_closed,
        }
    }

    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Returns all writes so far, in the order in which they were carried out or refused.
    pub fn writes(&self) -> Vec<Write> {
        self.ledger.lock().unwrap().writes.clone()
    }
}

impl Drop for Resource {
    fn drop(&mut self) {
        self.is_closed.store(true, Relaxed);
        // This connection wakes the listener, which then sees the flag and ends.
        drop(UnixStream::connect(&self.socket));
    }
}

fn serve(ledger: &Mutex<Ledger>, client: UnixStream) {
    let lines = BufReader::new(client.try_clone().unwrap()).lines();
    for line in lines.map_while(Result::ok) {
        // A killed writer may leave half a line.
        let Ok(request) = serde_json::from_str(&line) else {
            return;
        };
        let reply = ledger.lock().unwrap().answer(request);
        let reply = serde_json::to_string(&reply).unwrap();
        if writeln!(&client, "{reply}").is_err() {
            return;
        }
    }
}

impl Ledger {
    fn answer(&mut self, request: Request) -> Reply {
        match request {
            Request::Read { key, token } => {
                let account = self.accounts.entry(key).or_default();
                if self.compares && token < account.token {
                    return None;
                }
                // From now on a write with an older token cannot come between the read and the write.
                account.token = account.token.max(token);
                Some(account.version)
            }
            Request::Write(mut write) => {
                let account = self.accounts.entry(write.key).or_default();
                write.at = clock::now();
                write.found = account.version;
                write.accepted = !self.compares || write.token >= account.token;
                if write.accepted {
                    account.version += 1;
                    account.token = account.token.max(write.token);
                }
                let reply = write.accepted.then_some(write.found);
                self.writes.push(write);
                reply
            }
        }
    }
}

/// A worker's client of the resource. Its requests block until the reply, so that a body that is canceled
/// has nothing under way.
#[derive(Clone)]
pub struct Account {
    socket: PathBuf,
    pub worker: u32,
    pub key: u32,
}

thread_local! {
    static CONNECTION: RefCell<Option<BufReader<UnixStream>>> = const { RefCell::new(None) };
}

impl Account {
    pub fn new(socket: &Path, worker: u32, key: u32) -> Self {
        let socket = socket.to_owned();
        Self {
            socket,
            worker,
            key,
        }
    }

    /// Returns the current version, or `None` if the token is too old.
    pub fn read(&self, token: u64) -> Option<u64> {
        let key = self.key;
        self.ask(&Request::Read { key, token })
    }

    /// Writes the version after `read`. Returns `false` if the token is too old.
    pub fn write(&self, call: u64, token: u64, read: u64) -> bool {
        let write = Write {
            at: 0,
            worker: self.worker,
            call,
            key: self.key,
            token,
            read,
            found: 0,
            accepted: false,
        };
        self.ask(&Request::Write(write)).is_some()
    }

    fn ask(&self, request: &Request) -> Reply {
        CONNECTION.with_borrow_mut(|connection| {
            let connection = connection
                .get_or_insert_with(|| BufReader::new(UnixStream::connect(&self.socket).unwrap()));
            let mut line = serde_json::to_string(request).unwrap();
            line.push('\n');
            connection.get_mut().write_all(line.as_bytes()).unwrap();
            line.clear();
            connection.read_line(&mut line).unwrap();
            serde_json::from_str(&line).unwrap()
        })
    }
}
