//! Opens the engine at an `etcd://` URL.

use crate::engine::common::claim_table::end_expired;
use crate::engine::etcd::EtcdEngine;
use crate::engine::etcd::address::Address;
use crate::engine::etcd::conn::client::Client;
use crate::engine::etcd::conn::connect::Connector;
use crate::engine::etcd::conn::leases::Leases;
use crate::engine::etcd::keys::Keys;
use crate::engine::etcd::lock::claims::Claims;
use crate::engine::etcd::lock::core::Core;
use crate::engine::event::EngineEvent;
use crate::engine::opening::{OpenFuture, Opened, Opening, connect_error};
use crate::error::LockError;
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
        handler,
    } = opening;
    let address = Address::parse(url, config)?;
    let server: Arc<str> = address.to_string().into();
    #[cfg(not(feature = "tls"))]
    if address.tls {
        return Err(crate::config::invalid(
            "a URL that begins with `etcds` needs TLS; enable the feature `tls` of `lock-runtime`",
        ));
    }
    #[cfg(feature = "tls")]
    let tls = match address.tls {
        true => {
            let mut tls = crate::engine::tls::client_config(config.root_certificate.as_deref())?;
            tls.alpn_protocols = vec![b"h2".to_vec()];
            Some(Arc::new(tls))
        }
        false => None,
    };
    let keys = Keys::new(&config.prefix);
    // The core exists only when there is a connection, whose watches report to it.
    let core = Arc::new(OnceLock::<Weak<Core>>::new());
    let of_watch = core.clone();
    let connector = Connector {
        io,
        address,
        timeouts,
        #[cfg(feature = "tls")]
        tls,
        session_key: keys.session(),
        on_watch: Arc::new(move |message| {
            if let Some(core) = of_watch.get().and_then(Weak::upgrade) {
                core.on_watch(&message);
            }
        }),
    };
    let again = handler.clone();
    let on_connect = move || again(EngineEvent::Resubscribed);
    let client = Client::connect(connector, on_connect).await;
    let client = client.map_err(|error| {
        connect_error(server.clone(), error, |server, error| {
            format!("`{server}` can't be used: {error}")
        })
    })?;
    let client = Arc::new(client);
    let lost = handler.clone();
    let on_lost = move || lost(EngineEvent::Resubscribed);
    let strong = Arc::new(Core {
        leases: Leases::new(client.clone(), clock.clone(), on_lost),
        client,
        claims: Arc::new(Claims::new(keys.clone(), clock.clone())),
        keys,
        started: clock.now(),
        clock,
        handler,
    });
    let _ = core.set(Arc::downgrade(&strong));
    let (table, weak) = (strong.claims.table.clone(), Arc::downgrade(&strong));
    io.spawn_detached(end_expired(table, weak, |core, token| {
        core.end(token);
    }));
    Ok((Arc::new(EtcdEngine { core: strong }), server))
}
