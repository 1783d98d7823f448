//! Bells: a second connection waits on the server for a named lock that it does not get, until another
//! process ends that statement.
//!
//! While it waits, it has a named lock of its own, by which others find it.

use crate::engine::common::pace::{MIN_TIMEOUT, Pace};
use crate::engine::common::upkeep::{Connect, Kept, Upkeep};
use crate::engine::error::EngineError;
use crate::engine::event::EventHandler;
use crate::engine::mysql::conn::batch::Request;
use crate::engine::mysql::conn::connect::Connector;
use crate::engine::mysql::conn::connection::Connection;
use crate::engine::mysql::conn::session::Session;
use crate::engine::mysql::wire::error::Failure;
use crate::engine::mysql::wire::reply::Reply;
use crate::own_store::{Bell, Bells};
use crate::util::io_thread::{AbortOnDrop, pause};
use crate::util::sync::Mutex;
use crate::util::time::{deadline_in, timeout_at};
use mysql_common::value::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;

/// How long one statement waits.
const WAIT: Duration = Duration::from_secs(25);

pub(crate) struct Ears {
    connector: Arc<Connector>,
    requests: Arc<Upkeep<Connection>>,
    handler: EventHandler,
    hears: Arc<AtomicBool>,
    ear: Mutex<Option<Upkeep<Ear>>>,
}

impl Ears {
    pub(crate) fn new(
        connector: Arc<Connector>,
        requests: Arc<Upkeep<Connection>>,
        handler: EventHandler,
    ) -> Ears {
        Ears {
            connector,
            requests,
            handler,
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
        let of = (&**address as _, "bells");
        let pace = Pace::new(of, MIN_TIMEOUT, timeouts, self.handler.clone());
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
        if let Some(connection) = self.requests.present().filter(|it| it.is_direct) {
            connection.run(ring(name));
        }
    }
}

/// A connection that waits, and ends when it is dropped.
struct Ear {
    /// Closed when it has ended.
    end: mpsc::Sender<()>,
    _task: Option<AbortOnDrop>,
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
        let session = self.connector.begin(timeout).await?;
        let (end, until) = mpsc::channel(1);
        let hearing = Hearing {
            requests: self.requests.clone(),
            silence: self.connector.timeouts.silence(),
            hears: self.hears.clone(),
            name: self.name.clone(),
            bell: self.bell.clone(),
        };
        let task = self.connector.io.spawn(async move {
            // Behind a proxy, statements and named locks are other connections': all that is left is to look.
            let _until = until;
            match session.is_direct {
                true => _ = hearing.hear(session).await,
                false => std::future::pending().await,
            }
        });
        let task = AbortOnDrop(task.abort_handle());
        Ok(Arc::new(Ear {
            end,
            _task: Some(task),
        }))
    }
}

struct Hearing {
    requests: Arc<Upkeep<Connection>>,
    silence: Duration,
    /// Set from the first bell on, which is its own.
    hears: Arc<AtomicBool>,
    name: Arc<str>,
    bell: Bell,
}

impl Drop for Hearing {
    fn drop(&mut self) {
        self.hears.store(false, Ordering::Relaxed);
    }
}

impl Hearing {
    /// Rings the bell whenever the statement is ended.
    async fn hear(&self, mut session: Session) -> Result<(), Failure> {
        // An earlier connection of this process may have the name yet.
        self.wait(&mut session, &take("ear", &self.name, WAIT))
            .await?;
        loop {
            self.begin().await;
            loop {
                match self
                    .wait(&mut session, &take("ring", &self.name, WAIT))
                    .await?
                {
                    Waited::Rung => {
                        self.hears.store(true, Ordering::Relaxed);
                        (self.bell)();
                    }
                    Waited::InVain => {}
                    // The connection for requests is gone.
                    Waited::Got => break,
                }
            }
            self.hears.store(false, Ordering::Relaxed);
            session
                .query(&format!("DO RELEASE_LOCK('dl:ring:{}')", self.name))
                .await?;
        }
    }

    /// Lets the connection for requests take the lock that this one waits for, and ring once.
    async fn begin(&self) {
        loop {
            if let Ok(connection) = self.requests.connection(true).await {
                let text = take("ring", &self.name, Duration::from_secs(1));
                let taken = connection.send(|answer| Request::Run(text, answer));
                if taken.await.is_ok() {
                    connection.run(ring(&self.name));
                    return;
                }
            }
            pause().await;
        }
    }

    async fn wait(&self, session: &mut Session, text: &str) -> Result<Waited, Failure> {
        let reply = timeout_at(deadline_in(WAIT + self.silence), session.query(text)).await;
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
