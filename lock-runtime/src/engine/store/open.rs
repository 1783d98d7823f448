//! Opens the engine on a store.

use crate::engine::common::batches::Batches;
use crate::engine::opening::{Opened, Opening, connect_error};
use crate::engine::store::StoreEngine;
use crate::engine::store::core::Core;
use crate::engine::store::database::Database;
use crate::engine::store::hearing::Hearing;
use crate::engine::store::keys::Keys;
use crate::engine::store::known::KnownLocks;
use crate::error::LockError;
use crate::own_store::Store;
use crate::util::sync::Mutex;
use crate::util::time::deadline_in;
use std::sync::{Arc, OnceLock};

/// `server`: how errors and events name it.
pub(crate) async fn open(
    opening: Opening<'_>,
    store: Arc<dyn Store>,
    database: Option<Arc<dyn Database>>,
    server: &str,
) -> Result<Opened, LockError> {
    let core = Arc::new(Core {
        store,
        database,
        io: opening.io,
        clock: opening.clock.clone(),
        handler: opening.handler,
        keys: Keys::new(&opening.config.prefix),
        known: KnownLocks::default(),
        server_clock: Mutex::default(),
        listening: Arc::default(),
        process: opening.process,
        waiting: Mutex::default(),
        hearing: Hearing::default(),
        errands: Batches::default(),
        texts: Batches::default(),
        recalls: OnceLock::new(),
    });
    let engine = StoreEngine {
        core,
        started: opening.clock.now(),
        server: server.into(),
        connect_timeout: opening.timeouts.connect,
    };
    let deadline = deadline_in(opening.timeouts.connect);
    let (core, sent) = (engine.core.clone(), opening.clock.now());
    let replied = async {
        let loaded = core.look(&core.keys.asks, deadline).await?;
        core.note_time(&loaded, sent);
        match opening.config.check_permissions {
            true => engine.ping(deadline).await,
            // Whoever only looks at locks may not write.
            false => Ok(()),
        }
    };
    replied.await.map_err(|error| {
        connect_error(server.into(), error, |server, error| {
            format!("`{server}` can't be used: {error}")
        })
    })?;
    Ok((Arc::new(engine), server.into()))
}
