//! Opens the engine at a URL.

use crate::engine::common::pace::{MIN_TIMEOUT, Pace};
use crate::engine::common::upkeep::Upkeep;
use crate::engine::event::EventHandler;
use crate::engine::mysql::address::Address;
use crate::engine::mysql::bells::Ears;
use crate::engine::mysql::conn::connect::{Connector, ForRequests};
use crate::engine::mysql::store::MySqlStore;
use crate::engine::opening::{OpenFuture, Opening};
use crate::engine::store;
use crate::engine::timeouts::Timeouts;
use crate::util::io_thread::IoThread;
use std::sync::Arc;

pub(crate) fn open<'a>(opening: Opening<'a>, url: &'a str) -> OpenFuture<'a> {
    Box::pin(async move {
        let address = Arc::new(Address::parse(url, opening.config)?);
        let server = address.to_string();
        let store = start(opening.io, address, &opening.timeouts, &opening.handler);
        let store = Arc::new(store);
        store::open::open(opening, store.clone(), Some(store), &server).await
    })
}

/// Begins to connect.
pub(crate) fn start(
    io: IoThread,
    address: Arc<Address>,
    timeouts: &Timeouts,
    handler: &EventHandler,
) -> MySqlStore {
    let pace = Pace::new(
        (&address, "requests"),
        MIN_TIMEOUT,
        timeouts,
        handler.clone(),
    );
    // The caller hears of a failure of the first try from its request.
    let (pace, _) = pace.awaited();
    let (database, creates) = (address.database.clone(), address.create_table);
    let connector = Arc::new(Connector {
        io,
        address,
        timeouts: timeouts.clone(),
        last: Default::default(),
    });
    let requests = Upkeep::start(io, pace, ForRequests(connector.clone()));
    let requests = Arc::new(requests);
    let ears = Ears::new(connector, requests.clone());
    MySqlStore {
        requests,
        ears,
        database,
        creates,
    }
}
