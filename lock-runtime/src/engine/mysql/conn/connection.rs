//! One connection to a server, which a task on the I/O thread serves: all requests that have come meanwhile
//! go together.

use crate::engine::common::upkeep::Kept;
use crate::engine::mysql::conn::batch::{Answer, Other, Request, Round};
use crate::engine::mysql::conn::session::Session;
use crate::engine::timeouts::{NO_REPLY, Timeouts};
use crate::own_store::StoreError;
use crate::util::io_thread::{AbortOnDrop, IoThread};
use crate::util::time::{deadline_in, timeout_at};
use std::sync::Arc;
use std::time::Duration;
use tokio::select;
use tokio::sync::{mpsc, oneshot};

/// How many requests go together at the most.
const MOST: usize = 128;

/// How long a reply may take at least: longer than a statement waits for a row, or a lock on one row would
/// end the connection of all.
const MIN_SILENCE: Duration = Duration::from_millis(1500);

/// A connection, which ends when it is dropped.
pub(crate) struct Connection {
    requests: mpsc::UnboundedSender<Request>,
    pub(crate) server: Arc<str>,
    pub(crate) is_sole: bool,
    _task: AbortOnDrop,
}

impl Connection {
    pub(crate) fn start(io: IoThread, session: Session, timeouts: Timeouts) -> Connection {
        let (requests, received) = mpsc::unbounded_channel();
        let (server, is_sole) = (session.server.clone(), session.is_sole);
        let task = io.spawn(serve(session, received, timeouts));
        Connection {
            requests,
            server,
            is_sole,
            _task: AbortOnDrop(task.abort_handle()),
        }
    }

    /// Sends a request, which is carried out even if the caller leaves, and returns the reply.
    pub(crate) async fn send<T>(
        &self,
        request: impl FnOnce(Answer<T>) -> Request,
    ) -> Result<T, StoreError> {
        let (answer, answered) = oneshot::channel();
        if self.requests.send(request(answer)).is_err() {
            return Err(StoreError::not_done(ENDED));
        }
        answered
            .await
            .unwrap_or_else(|_| Err(StoreError::unknown(ENDED)))
    }

    /// Sends a statement, and does not wait for its end.
    pub(crate) fn run(&self, text: String) {
        let (answer, _) = oneshot::channel();
        let _ = self.requests.send(Request::Other(Other::Run(text, answer)));
    }
}

const ENDED: &str = "the connection has ended";

impl Kept for Connection {
    fn has_ended(&self) -> bool {
        self.requests.is_closed()
    }

    async fn ended(&self) {
        self.requests.closed().await;
    }
}

async fn serve(
    mut session: Session,
    mut requests: mpsc::UnboundedReceiver<Request>,
    timeouts: Timeouts,
) {
    while !session.is_over {
        let mut received = Vec::new();
        select! {
            biased;
            () = session.ended() => break,
            count = requests.recv_many(&mut received, MOST) => if count == 0 {
                return;
            },
        }
        let mut round = Round::of(received);
        let carried_out = round.carry_out(&mut session);
        let error = match timeout_at(
            deadline_in(timeouts.silence().max(MIN_SILENCE)),
            carried_out,
        )
        .await
        {
            Ok(Ok(())) => continue,
            Ok(Err(failure)) => StoreError::Unknown(Arc::new(failure)),
            Err(_) => StoreError::unknown(NO_REPLY),
        };
        // Callers connect again as soon as they have the error.
        requests.close();
        round.fail(&error);
        break;
    }
    requests.close();
    while let Some(request) = requests.recv().await {
        request.fail(StoreError::not_done(ENDED));
    }
}
