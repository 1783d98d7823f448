//! A connection that is replaced when it breaks, and the requests sent over it.

use crate::engine::common::pace::{FirstTry, MIN_TIMEOUT, Pace};
use crate::engine::common::upkeep::{Kept, Upkeep};
use crate::engine::error::EngineError;
use crate::engine::redis::conn::connect::Connector;
use crate::engine::redis::conn::connection::Connection;
use crate::engine::redis::conn::request::{Content, Envelope, Reply, Via};
use crate::engine::redis::wire::encode::command;
use crate::engine::redis::wire::reply::decode;
use crate::util::time::now;
use redis::FromRedisValue;
use std::sync::Arc;
use tokio::time::Instant;

pub(crate) type ReconnectingConnection = Upkeep<Connection>;

impl Upkeep<Connection> {
    /// Starts connecting. The caller reports the result of the first try.
    pub(crate) fn connect(connector: Connector) -> (ReconnectingConnection, FirstTry) {
        let (pace, first) = pace(&connector).awaited();
        (Upkeep::start(connector.io, pace, connector), first)
    }

    /// Connects in the background, as if a connection had broken.
    pub(crate) fn connect_in_background(connector: Connector) -> ReconnectingConnection {
        Upkeep::start(connector.io, pace(&connector), connector)
    }

    /// Replaces the present connection.
    pub(crate) fn reconnect(&self) {
        if let Some(connection) = self.present() {
            connection.end();
        }
    }

    /// Sends a command that is about no lock.
    pub(crate) async fn ask<T: FromRedisValue>(
        &self,
        words: &[&str],
        deadline: Instant,
    ) -> Result<T, EngineError> {
        let command = Arc::new(command(words));
        let envelope = Content::Command(&command).by(Via::IoThread, deadline);
        decode(self.send(&envelope).await?.value)
    }

    /// Sends a request, and waits for its reply until the deadline.
    pub(crate) async fn send<'a>(&self, envelope: &Envelope<'a>) -> Result<Reply<'a>, EngineError> {
        let (deadline, is_patient) = (envelope.deadline, envelope.delivery.via == Via::Patient);
        loop {
            let connection = self.connection_by(deadline, is_patient).await?;
            match connection.send(envelope).await {
                Ok(reply) => return Ok(reply),
                Err(failed) => {
                    if failed.broken {
                        connection.end();
                    }
                    if !failed.not_sent || now() >= deadline {
                        return Err(failed.error);
                    }
                }
            }
        }
    }
}

fn pace(connector: &Connector) -> Pace {
    let of = (&connector.discovery as _, connector.purpose());
    Pace::new(
        of,
        MIN_TIMEOUT,
        &connector.timeouts,
        connector.handler.clone(),
    )
}
