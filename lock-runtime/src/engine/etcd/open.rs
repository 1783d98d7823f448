//! Opens the engine at an `etcd://` URL.

use crate::engine::etcd::EtcdEngine;
use crate::engine::etcd::address::Address;
use crate::engine::etcd::asks;
use crate::engine::etcd::conn::client::Client;
use crate::engine::etcd::conn::connect::Connector;
use crate::engine::etcd::keys::Keys;
use crate::engine::etcd::lock::core::Core;
use crate::engine::event::EngineEvent;
use crate::engine::opening::{OpenFuture, Opened, Opening, connect_error};
use crate::error::LockError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// Opens the engine at the URL.
pub(crate) fn open<'a>(opening: Opening<'a>, url: &'a str) -> OpenFuture<'a> {
    Box::pin(connect(opening, url))
}

async fn connect(opening: Opening<'_>, url: &str) -> Result<Opened, LockError> {
    let Opening {
        config,
        timeouts,
        io,
        clock,
        process,
        handler,
    } = opening;
    let address = Address::parse(url, config)?;
    let server: Arc<str> = address.to_string().into();
    let keys = Keys::new(&config.prefix);
    // The core exists only when there is a connection, whose watches report to it.
    let core = Arc::new(OnceLock::<Weak<Core>>::new());
    let of_watch = core.clone();
    let hears_recalls = Arc::<AtomicBool>::default();
    let (hears, deaf) = (hears_recalls.clone(), hears_recalls.clone());
    let connector = Connector {
        io,
        address,
        timeouts,
        handler: handler.clone(),
        epoch_key: keys.epoch(),
        on_watch: Arc::new(move |message| {
            if let Some(now) = asks::hears_recalls(&message) {
                hears.store(now, Ordering::Relaxed);
            }
            if let Some(core) = of_watch.get().and_then(Weak::upgrade)
                && !core.on_asked(&message)
            {
                core.on_watch(&message);
            }
        }),
        own: asks::watches(&keys, process),
    };
    let (of_connect, again) = (core.clone(), handler.clone());
    let on_connect = move || {
        // Until the server accepts the watch of this connection.
        deaf.store(false, Ordering::Relaxed);
        again(EngineEvent::Resubscribed);
        if let Some(core) = of_connect.get().and_then(Weak::upgrade) {
            core.on_new_epoch();
        }
    };
    let client = Client::connect(connector, on_connect).await;
    let client = client.map_err(|error| {
        connect_error(server.clone(), error, |server, error| {
            format!("`{server}` can't be used: {error}")
        })
    })?;
    let strong = Core::start(client, keys, clock, handler, hears_recalls);
    let _ = core.set(Arc::downgrade(&strong));
    Ok((Arc::new(EtcdEngine { core: strong }), server))
}
