//! Bells: a second connection waits on the server for a named lock that it does not get, until another
//! process ends that statement.
//!
//! While it waits, it has a named lock of its own, by which others find it.

use crate::engine::common::pace::{MIN_TIMEOUT, Pace};
use crate::engine::common::upkeep::{Connect, Kept, Upkeep};
use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::mysql::conn::batch::{Other, Request};
use crate::engine::mysql::conn::connect::Connector;
use crate::engine::mysql::conn::connection::Connection;
use crate::engine::mysql::conn::session::Session;
use crate::engine::mysql::wire::error::Failure;
use crate::engine::mysql::wire::reply::Reply;
use crate::own_store::{Bell, Bells, StoreError};
use crate::util::io_thread::AbortOnDrop;
use crate::util::sync::Mutex;
use crate::util::time::{deadline_in, timeout_at};
use mysql_common::value::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::select;
use tokio::sync::mpsc;

/// How long one statement waits, and how long before the first bell, which is its own.
const WAIT: Duration = Duration::from_secs(25);
const FIRST_WAIT: Duration = Duration::from_secs(1);

pub(crate) struct Ears {
    connector: Arc<Connector>,
    requests: Arc<Upkeep<Connection>>,
    hears: Arc<AtomicBool>,
    ear: Mutex<Option<Upkeep<Ear>>>,
}

impl Ears {
    pub(crate) fn new(connector: Arc<Connector>, requests: Arc<Upkeep<Connection>>) -> Ears {
        Ears {
            connector,
            requests,
            hears: Arc::default(),
            ear: Mutex::default(),
        }
    }
}

impl Bells for Ears {
    fn listen(&self, name: &str, bell: Bell) {
        let Connector {
            io,
            address,
            timeouts,
            ..
        } = &*self.connector;
        // Locks work without it, so no outage is reported.
        let of = (&**address as _, "bells");
        let pace = Pace::new(of, MIN_TIMEOUT, timeouts, Arc::new(drop));
        let connect = ForEar {
            connector: self.connector.clone(),
            requests: self.requests.clone(),
            hears: self.hears.clone(),
            name: name.into(),
            bell,
        };
        *self.ear.lock() = Some(Upkeep::start(*io, pace, connect));
    }

    fn hears(&self) -> bool {
        self.hears.load(Ordering::Relaxed)
    }

    fn ring(&self, name: &str) {
        if let Some(connection) = self.requests.present().filter(|it| it.is_sole) {
            connection.run(ring(name));
        }
    }
}

/// A connection that waits. It ends when it is dropped, and with the connection for requests.
struct Ear {
    /// Closed when it has ended.
    end: mpsc::Sender<()>,
    _task: AbortOnDrop,
}

impl Kept for Ear {
    fn has_ended(&self) -> bool {
        self.end.is_closed()
    }

    async fn ended(&self) {
        self.end.closed().await;
    }
}

struct ForEar {
    connector: Arc<Connector>,
    requests: Arc<Upkeep<Connection>>,
    hears: Arc<AtomicBool>,
    name: Arc<str>,
    bell: Bell,
}

impl Connect for ForEar {
    type Connection = Ear;

    async fn connect(&mut self, timeout: Duration) -> Result<Arc<Ear>, EngineError> {
        let requests = self.requests.connection(true).await?;
        let hearing = match requests.is_sole {
            true => self.begin(&requests, timeout).await?,
            // Statements and named locks may be another connection's, or another server's.
            false => None,
        };
        let (end, until) = mpsc::channel(1);
        let task = self.connector.io.spawn(async move {
            let _until = until;
            match hearing {
                Some(mut hearing) => select! {
                    _ = hearing.hear(&requests) => {}
                    () = requests.ended() => {}
                },
                None => requests.ended().await,
            }
        });
        Ok(Arc::new(Ear {
            end,
            _task: AbortOnDrop(task.abort_handle()),
        }))
    }
}

impl ForEar {
    /// Begins to wait. Returns `None` if there are no bells as long as that connection for requests is used.
    async fn begin(
        &self,
        requests: &Connection,
        timeout: Duration,
    ) -> Result<Option<Hearing>, EngineError> {
        let session = self.connector.begin(timeout, false).await?;
        if session.server != requests.server || !session.is_sole {
            return Ok(None);
        }
        let mut hearing = Hearing {
            session,
            silence: self.connector.timeouts.silence(),
            hears: self.hears.clone(),
            name: self.name.clone(),
            bell: self.bell.clone(),
        };
        match hearing.take("ear", Duration::ZERO).await {
            Ok(Waited::Got) => {}
            // The server refuses named locks.
            Err(Failure::Server(_)) => return Ok(None),
            Err(failure) => return Err(failure.into()),
            Ok(_) => {
                let words = "an earlier connection of this process has not ended yet";
                return Err(EngineError::new(EngineErrorKind::NotConnected, words));
            }
        }
        // Whoever has that lock, it is not this connection.
        let text = take("ring", &self.name, Duration::ZERO);
        let taken = requests
            .send(|answer| Request::Other(Other::Run(text, answer)))
            .await;
        taken
            .map_err(|error: StoreError| EngineError::new(EngineErrorKind::NotConnected, error))?;
        Ok(Some(hearing))
    }
}

struct Hearing {
    session: Session,
    silence: Duration,
    hears: Arc<AtomicBool>,
    name: Arc<str>,
    bell: Bell,
}

impl Drop for Hearing {
    fn drop(&mut self) {
        if self.hears.swap(false, Ordering::Relaxed) {
            (self.bell)();
        }
    }
}

impl Hearing {
    /// Rings the bell whenever the statement is ended.
    async fn hear(&mut self, requests: &Connection) -> Result<(), Failure> {
        loop {
            let hears = self.hears.load(Ordering::Relaxed);
            if !hears {
                // It may come before the statement has begun.
                requests.run(ring(&self.name));
            }
            let wait = if hears { WAIT } else { FIRST_WAIT };
            match self.take("ring", wait).await? {
                Waited::Rung => {
                    self.hears.store(true, Ordering::Relaxed);
                    (self.bell)();
                }
                Waited::InVain => {}
                // The connection for requests is gone.
                Waited::Got => return Ok(()),
            }
        }
    }

    /// Waits for a named lock.
    async fn take(&mut self, kind: &str, wait: Duration) -> Result<Waited, Failure> {
        let text = take(kind, &self.name, wait);
        let reply = timeout_at(deadline_in(wait + self.silence), self.session.query(&text)).await;
        match reply {
            Ok(Ok(reply)) => Ok(Waited::of(&reply)),
            Ok(Err(Failure::Server(error))) if error.is_interrupted() => Ok(Waited::Rung),
            Ok(Err(failure)) => Err(failure),
            Err(_) => Err(Failure::Malformed("a wait does not end")),
        }
    }
}

/// How the wait for a named lock has ended.
enum Waited {
    Got,
    InVain,
    /// MariaDB says so by a NULL, and MySQL by an error.
    Rung,
}

impl Waited {
    fn of(reply: &Reply) -> Waited {
        match reply.rows.first().and_then(|row| row.as_ref(0)) {
            Some(Value::Bytes(got)) if got == b"1" => Waited::Got,
            Some(Value::Bytes(_)) => Waited::InVain,
            _ => Waited::Rung,
        }
    }
}

fn take(kind: &str, name: &str, wait: Duration) -> String {
    format!("SELECT GET_LOCK('dl:{kind}:{name}', {})", wait.as_secs())
}

fn ring(name: &str) -> String {
    format!("KILL QUERY IS_USED_LOCK('dl:ear:{name}')")
}
