//! Samples on the server, continuously, for how long each lock is still held.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use redis::{Client, Connection, RedisResult};
use tokio::runtime::Builder;
use tokio::time::timeout;
use tokio_postgres::NoTls;

use crate::clock;
use crate::deployment::name;
use crate::source::Source;
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
    pub fn start(source: Option<Source>, keys: u32) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let theirs = is_over.clone();
        let watch = |source| thread::spawn(move || watch(&source, keys, &theirs));
        Self {
            thread: source.map(watch),
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

fn watch(source: &Source, keys: u32, is_over: &AtomicBool) -> Vec<Sample> {
    let mut samples = Vec::new();
    let mut connection = None;
    while !is_over.load(Relaxed) {
        thread::sleep(PAUSE);
        // The server may be unavailable at the moment.
        let Some(look) = connection.as_mut() else {
            connection = connect(source);
            continue;
        };
        match look(keys) {
            Some(seen) => samples.extend(seen),
            None => connection = None,
        }
    }
    samples
}

/// Looks at all keys over one connection; returns `None` if it is broken.
type Look = Box<dyn FnMut(u32) -> Option<Vec<Sample>>>;

/// The limit of one look.
const LIMIT: Duration = millis(1000);

fn connect(source: &Source) -> Option<Look> {
    match source {
        Source::Redis(socket) => {
            let url = format!("redis+unix://{}", socket.display());
            let mut connection = Client::open(url).ok()?.get_connection().ok()?;
            connection.set_read_timeout(Some(LIMIT)).ok()?;
            Some(Box::new(move |keys| {
                let look = |key| look(&mut connection, key);
                (0..keys).map(look).collect::<RedisResult<_>>().ok()
            }))
        }
        Source::Postgres { directory, port } => {
            let runtime = Builder::new_current_thread().enable_all().build().ok()?;
            let mut config = tokio_postgres::Config::new();
            config.host_path(directory).port(*port).user("postgres");
            let connect = async { timeout(LIMIT, config.connect(NoTls)).await };
            let (client, connection) = runtime.block_on(connect).ok()?.ok()?;
            runtime.spawn(connection);
            Some(Box::new(move |keys| {
                runtime.block_on(timeout_in(LIMIT, rows(&client, keys)))
            }))
        }
    }
}

async fn timeout_in<T>(limit: Duration, look: impl Future<Output = Option<T>>) -> Option<T> {
    timeout(limit, look).await.ok()?
}

/// Returns the rest of the last lease, which a key may outlast.
const LEFT: &str = "
    local left = redis.call('PTTL', KEYS[1])
    local kind = redis.call('TYPE', KEYS[1]).ok
    local holder = kind == 'string' and redis.call('GET', KEYS[1]) or ''
    if kind == 'zset' or holder == '::reserved' or string.sub(holder, -1) == '+' then
        left = left - 500
    end
    return left";

fn look(connection: &mut Connection, key: u32) -> RedisResult<Sample> {
    let from = clock::now();
    let mut left = redis::cmd("EVAL");
    let left: i64 = left.arg(LEFT).arg(1).arg(name(key)).query(connection)?;
    Ok(Sample {
        key,
        from,
        to: clock::now(),
        left: u64::try_from(left).unwrap_or(0) * 1_000_000,
    })
}

/// The table does not exist before the first client has connected.
async fn rows(client: &tokio_postgres::Client, keys: u32) -> Option<Vec<Sample>> {
    let from = clock::now();
    let left =
        "SELECT name, (extract(epoch FROM max(expires_at) - clock_timestamp()) * 1e9)::bigint
        FROM distributed_lock.held GROUP BY name";
    let rows = client.query(left, &[]).await.ok()?;
    let to = clock::now();
    let left = |key| {
        let row = rows.iter().find(|row| row.get::<_, &str>(0) == name(key));
        row.map_or(0, |row| u64::try_from(row.get::<_, i64>(1)).unwrap_or(0))
    };
    let sample = |key| Sample {
        key,
        from,
        to,
        left: left(key),
    };
    Some((0..keys).map(sample).collect())
}
