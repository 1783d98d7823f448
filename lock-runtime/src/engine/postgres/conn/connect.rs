//! One connection to a server, which a task on the I/O thread drives.

use crate::credentials::Login;
use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::postgres::address::Address;
use crate::engine::postgres::address::servers::{Servers, addresses, as_user, within};
use crate::engine::postgres::conn::backend::Backend;
use crate::engine::postgres::conn::prepared::Prepared;
use crate::engine::postgres::wire::error::{connecting, of_each};
use crate::util::io_thread::{AbortOnDrop, IoThread};
use crate::util::time::{deadline_in, now, timeout_at};
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::AbortHandle;
use tokio::time::Instant;
#[cfg(not(feature = "tls"))]
use tokio_postgres::NoTls;
use tokio_postgres::{AsyncMessage, Client, Config};

/// Called on the I/O thread with each message that is no reply, and with `None` when the connection ends.
pub(crate) type MessageHandler = Box<dyn Fn(Option<AsyncMessage>) + Send + Sync>;

/// A connection, which ends when it is dropped.
pub(crate) struct Connection {
    pub(crate) client: Client,
    pub(crate) backend: Backend,
    /// Set once the schema is there.
    pub(crate) prepared: Prepared,
    _task: AbortOnDrop,
}

impl Connection {
    /// Connects until that instant to the first of the servers that accepts writes. Each has a share of the
    /// time, so that one that hangs hides no other.
    pub(crate) async fn open(
        io: IoThread,
        servers: &Servers,
        (address, login): (&Address, Option<Login>),
        until: Instant,
        on_message: MessageHandler,
    ) -> Result<Connection, EngineError> {
        let on_message: Arc<dyn Fn(Option<AsyncMessage>) + Send + Sync> = on_message.into();
        let (mut failed, mut left) = (Vec::new(), servers.len());
        for (number, config) in servers.in_order() {
            let time = until.saturating_duration_since(now()) / u32::try_from(left).unwrap_or(1);
            left -= 1;
            let config = as_user(&within(config, time), &login);
            let connect = Connection::open_one(io, &config, address, on_message.clone());
            match timeout_at(deadline_in(time), connect).await {
                Ok(Ok(connection)) => {
                    servers.begin_with(number);
                    return Ok(connection);
                }
                Ok(Err(error)) => failed.push((addresses(&config), error)),
                Err(_) => {
                    let words = format!("no connection within {:.1} s", time.as_secs_f64());
                    let error = EngineError::new(EngineErrorKind::NotConnected, words);
                    failed.push((addresses(&config), error));
                }
            }
        }
        Err(of_each(failed))
    }

    async fn open_one(
        io: IoThread,
        config: &Config,
        address: &Address,
        on_message: Arc<dyn Fn(Option<AsyncMessage>) + Send + Sync>,
    ) -> Result<Connection, EngineError> {
        let reports = Arc::new(AtomicBool::new(false));
        let is_used = reports.clone();
        let on_message = Box::new(move |message| {
            if is_used.load(Ordering::SeqCst) {
                on_message(message);
            }
        });
        let connected = connect(io, config, address, on_message).await;
        let (client, task) = connected.map_err(|error| connecting(&error))?;
        let task = AbortOnDrop(task);
        let connection = Connection {
            backend: Backend::of(&client).await?,
            client,
            prepared: Prepared::default(),
            _task: task,
        };
        if connection.backend.is_own {
            connection.set().await?;
        }
        // Its end is reported from now on, or has come before.
        reports.store(true, Ordering::SeqCst);
        if connection.client.is_closed() {
            let words = "the server closed the connection";
            return Err(EngineError::new(EngineErrorKind::NotConnected, words));
        }
        Ok(connection)
    }

    /// Turns off timeouts of the server, and lets it notice that this process is gone. Behind a pooler,
    /// others would get the same settings.
    async fn set(&self) -> Result<(), EngineError> {
        // No version knows all of these timeouts.
        let settings = "SELECT set_config(name, '0', false) FROM unnest(ARRAY['statement_timeout', \
                            'idle_session_timeout', 'transaction_timeout']) name \
                            WHERE current_setting(name, true) IS NOT NULL; \
                        SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; \
                        SET tcp_keepalives_count = 3";
        let set = self.client.batch_execute(settings).await;
        set.map_err(|error| connecting(&error))
    }
}

#[cfg(not(feature = "tls"))]
async fn connect(
    io: IoThread,
    config: &Config,
    _: &Address,
    on_message: MessageHandler,
) -> Result<(Client, AbortHandle), tokio_postgres::Error> {
    let (client, connection) = config.connect(NoTls).await?;
    Ok((client, drive(io, connection, on_message)))
}

#[cfg(feature = "tls")]
async fn connect(
    io: IoThread,
    config: &Config,
    address: &Address,
    on_message: MessageHandler,
) -> Result<(Client, AbortHandle), tokio_postgres::Error> {
    use crate::engine::postgres::conn::tls::Tls;

    match &address.tls {
        Some(tls) => {
            let (client, connection) = config.connect(Tls(tls.clone())).await?;
            Ok((client, drive(io, connection, on_message)))
        }
        None => {
            let (client, connection) = config.connect(tokio_postgres::NoTls).await?;
            Ok((client, drive(io, connection, on_message)))
        }
    }
}

fn drive<S, T>(
    io: IoThread,
    mut connection: tokio_postgres::Connection<S, T>,
    on_message: MessageHandler,
) -> AbortHandle
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let task = io.spawn(async move {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            on_message(Some(message));
        }
        // Before others hear that it has ended.
        drop(connection);
        on_message(None);
    });
    task.abort_handle()
}
