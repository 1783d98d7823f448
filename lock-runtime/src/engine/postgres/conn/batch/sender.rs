//! Sends the requests of the callers, each of which waits for its reply until a deadline.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::postgres::conn::batch::queue::RequestQueue;
use crate::engine::postgres::conn::batch::recipient::ReplySender;
use crate::engine::postgres::conn::batch::request::{Request, Single, Wait};
use crate::engine::postgres::wire::values::{Parameter, unexpected};
use crate::engine::timeouts::NO_REPLY;
use crate::util::io_thread::IoThread;
use std::sync::Arc;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_postgres::Row;

/// The only sender of an engine. Dropping it ends the connection once all requests have their replies.
pub(crate) struct RequestSender {
    io: IoThread,
    pub(crate) queue: Arc<RequestQueue>,
}

impl RequestSender {
    pub(crate) fn new(io: IoThread) -> RequestSender {
        let queue = Arc::default();
        RequestSender { io, queue }
    }

    /// Sends a request, and waits for the reply.
    pub(crate) async fn send<T>(
        &self,
        request: impl FnOnce(ReplySender<T>) -> Request,
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

    /// Sends a statement that is not sent together with others, and returns its row.
    pub(crate) async fn row(
        &self,
        statement: &'static str,
        parameters: Vec<Parameter>,
        waits: Option<Wait>,
        deadline: Instant,
    ) -> Result<Row, EngineError> {
        let rows = self.rows(statement, parameters, waits, deadline).await?;
        let row = rows.into_iter().next();
        row.ok_or_else(|| unexpected("no row"))
    }

    /// Sends a statement that is not sent together with others, and returns its rows.
    pub(crate) async fn rows(
        &self,
        statement: &'static str,
        parameters: Vec<Parameter>,
        waits: Option<Wait>,
        deadline: Instant,
    ) -> Result<Vec<Row>, EngineError> {
        let request = |reply| {
            Request::Single(Single {
                statement,
                parameters,
                waits,
                reply,
            })
        };
        self.send(request, deadline).await
    }
}

impl Drop for RequestSender {
    fn drop(&mut self) {
        self.queue.close();
    }
}
