//! Sends requests: each waits for its reply, until a deadline.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::postgres::conn::batch::queue::Queue;
use crate::engine::postgres::conn::batch::request::{Reply, Request, Single};
use crate::engine::postgres::wire::values::{Parameter, unexpected};
use crate::engine::timeouts::NO_REPLY;
use crate::engine::token::Token;
use crate::util::io_thread::IoThread;
use std::sync::Arc;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_postgres::Row;

/// The requests of one engine. Dropping it ends the connection once they are answered.
pub(crate) struct Requests {
    io: IoThread,
    pub(crate) queue: Arc<Queue>,
}

impl Requests {
    pub(crate) fn new(io: IoThread) -> Requests {
        let queue = Arc::default();
        Requests { io, queue }
    }

    /// Sends a request, and waits for the reply.
    pub(crate) async fn send<T>(
        &self,
        request: impl FnOnce(Reply<T>) -> Request,
        deadline: Instant,
    ) -> Result<T, EngineError> {
        let (sender, reply) = oneshot::channel();
        self.queue.push(request(sender));
        let words = match self.io.timeout_at(deadline, reply).await {
            Ok(Ok(reply)) => return reply,
            Ok(Err(_)) => format!("the connection broke, or there was {NO_REPLY}"),
            Err(_) => NO_REPLY.to_owned(),
        };
        Err(EngineError::new(EngineErrorKind::Indeterminate, words))
    }

    /// Calls a function that is not called for several requests at once, and returns its row.
    pub(crate) async fn row(
        &self,
        statement: &'static str,
        parameters: Vec<Parameter>,
        waits: Option<(Token, Option<i64>)>,
        deadline: Instant,
    ) -> Result<Row, EngineError> {
        let request = |reply| {
            Request::Single(Single {
                statement,
                parameters,
                waits,
                reply,
            })
        };
        let rows = self.send(request, deadline).await?;
        let row = rows.into_iter().next();
        row.ok_or_else(|| unexpected("no row"))
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        self.queue.close();
    }
}
