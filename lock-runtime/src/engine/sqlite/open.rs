//! Opens the engine on a file.

use crate::config::invalid;
use crate::engine::opening::{OpenFuture, Opening};
use crate::engine::sqlite::address::parse;
use crate::engine::sqlite::file::File;
use crate::engine::sqlite::worker::SqliteStore;
use crate::engine::store;
use crate::error::LockError;
use std::sync::Arc;

pub(crate) fn open<'a>(opening: Opening<'a>, url: &'a str) -> OpenFuture<'a> {
    Box::pin(async move {
        let path = parse(url).map_err(|problem| invalid(&problem))?;
        let unavailable = |error: std::io::Error| LockError::Unavailable {
            key: None,
            server: url.into(),
            source: Arc::new(error),
        };
        let file = File {
            path: std::path::absolute(path).map_err(unavailable)?,
            create: opening.config.create_schema,
            // So that the reply, which says that nothing was written, comes in time.
            patience: opening.timeouts.command * 4 / 5,
        };
        let store = SqliteStore::start(file).map_err(unavailable)?;
        store::open::open(opening, Arc::new(store), None, url).await
    })
}
