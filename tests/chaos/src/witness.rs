//! Samples on the server, continuously, for how long each lock is still held.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use redis::{Client, Connection, RedisResult};

use crate::clock;
use crate::deployment::name;
use lock_test_support::time::millis;

/// The state of a lock that a server reported at some time between `from` and `to`, by [`clock::now`].
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    pub key: u32,
    pub from: u64,
    pub to: u64,
    /// The nanoseconds for which it is still locked; zero if it is free.
    pub left: u64,
}

/// A thread that samples until it is ended.
pub struct Witness {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<Sample>>>,
}

const PAUSE: Duration = millis(4);

impl Witness {
    /// Starts the thread, or none if there is no single server to sample.
    pub fn start(socket: Option<PathBuf>, keys: u32) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let theirs = is_over.clone();
        let watch = |socket| thread::spawn(move || watch(socket, keys, &theirs));
        Self {
            thread: socket.map(watch),
            is_over,
        }
    }

    pub fn end(mut self) -> Vec<Sample> {
        self.is_over.store(true, Relaxed);
        let thread = self.thread.take();
        thread.map_or(Vec::new(), |thread| thread.join().unwrap())
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
    }
}

fn watch(socket: PathBuf, keys: u32, is_over: &AtomicBool) -> Vec<Sample> {
    let url = format!("redis+unix://{}", socket.display());
    let connect = || -> RedisResult<Connection> {
        let connection = Client::open(url.as_str())?.get_connection()?;
        connection.set_read_timeout(Some(millis(1000)))?;
        Ok(connection)
    };
    let mut samples = Vec::new();
    let mut connection = None;
    while !is_over.load(Relaxed) {
        thread::sleep(PAUSE);
        // The server may be unavailable at the moment.
        let Some(open) = connection.as_mut() else {
            connection = connect().ok();
            continue;
        };
        let mut look = || (0..keys).map(|key| look(open, key)).collect();
        match look() {
            Ok::<Vec<_>, _>(seen) => samples.extend(seen),
            Err(_) => connection = None,
        }
    }
    samples
}

fn look(connection: &mut Connection, key: u32) -> RedisResult<Sample> {
    let from = clock::now();
    let left: i64 = redis::cmd("PTTL").arg(name(key)).query(connection)?;
    Ok(Sample {
        key,
        from,
        to: clock::now(),
        left: u64::try_from(left).unwrap_or(0) * 1_000_000,
    })
}
