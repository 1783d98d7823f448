//! Opens the engine at a URL.

use crate::engine::opening::{OpenFuture, Opened, Opening, connect_error};
use crate::engine::postgres::PostgresEngine;
use crate::engine::postgres::target::Target;
use crate::error::LockError;
use std::sync::Arc;

pub(crate) fn open<'a>(opening: Opening<'a>, url: &'a str) -> OpenFuture<'a> {
    Box::pin(open_one(opening, url))
}

async fn open_one(opening: Opening<'_>, url: &str) -> Result<Opened, LockError> {
    let Opening {
        config,
        timeouts,
        io,
        clock,
        handler,
    } = opening;
    let target = Target::parse(url, config)?;
    let server: Arc<str> = target.to_string().into();
    match PostgresEngine::connect(io, clock, target, timeouts, handler).await {
        Ok(engine) => Ok((Arc::new(engine), server)),
        Err(error) => Err(connect_error(server, error, |server, error| {
            format!("`{server}` can't be used: {error}")
        })),
    }
}
