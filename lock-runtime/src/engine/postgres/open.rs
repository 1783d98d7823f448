//! Opens the engine at a URL.

use crate::engine::error::EngineError;
use crate::engine::opening::{OpenFuture, Opening, connect_error};
use crate::engine::postgres::PostgresEngine;
use crate::engine::postgres::address::Address;
use crate::engine::postgres::conn::batch::driver::drive;
use crate::engine::postgres::conn::batch::sender::RequestSender;
use crate::engine::postgres::conn::listen::listener::Listener;
use crate::engine::postgres::conn::listen::reconnect::Subscriber;
use std::sync::Arc;

pub(crate) fn open<'a>(opening: Opening<'a>, url: &'a str) -> OpenFuture<'a> {
    Box::pin(async move {
        let address = Arc::new(Address::parse(url, opening.config)?);
        let server: Arc<str> = address.to_string().into();
        match connect(opening, address).await {
            Ok(engine) => Ok((Arc::new(engine) as _, server)),
            Err(error) => Err(connect_error(server, error, |server, error| {
                format!("`{server}` can't be used: {error}")
            })),
        }
    })
}

/// Connects, and fails if that takes longer than the connect timeout.
async fn connect(
    opening: Opening<'_>,
    address: Arc<Address>,
) -> Result<PostgresEngine, EngineError> {
    let Opening {
        timeouts,
        io,
        clock,
        process,
        handler,
        ..
    } = opening;
    let requests = RequestSender::new(io);
    let queue = requests.queue.clone();
    let (of_driver, events) = (queue.clone(), handler.clone());
    drive(
        io,
        clock,
        address.clone(),
        timeouts.clone(),
        of_driver,
        events,
    )
    .await?;
    let (of_listener, limits) = (address.clone(), timeouts.clone());
    let subscriber = Subscriber::new(io, of_listener, limits, process, queue, handler);
    Ok(PostgresEngine {
        io,
        address,
        timeouts,
        requests,
        listener: Listener::new(subscriber),
    })
}
