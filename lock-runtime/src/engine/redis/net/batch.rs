//! Requests of many callers, sent in few writes.
//!
//! Requests that arrive while a batch is in flight are sent together in the next one. A lone request waits
//! for no other; under load the batches grow by themselves, and so does the throughput of a connection.

use redis::aio::MultiplexedConnection;
use redis::{Cmd, Pipeline, RedisResult, Value};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// The greatest batch: the server serves other clients between batches.
const MAX_BATCH: usize = 256;

/// The sender of a batched connection. Its task ends when it is dropped.
pub(crate) struct Batcher {
    requests: UnboundedSender<QueuedRequest>,
    task: JoinHandle<()>,
}

/// A command, and how it is sent.
#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) command: Cmd,
    /// `ASKING` is sent first: another node of the cluster redirected the command here.
    pub(crate) asking: bool,
    /// The number of replicas awaited on the connection that is used; 0 for the usual connection.
    pub(crate) replicas: u32,
    /// `true` if they are awaited. Then the reply is a pair: the command's own, and the number of replicas
    /// that acknowledged it.
    pub(crate) await_replicas: bool,
    /// `true` if the request waits for a connection while there is none, instead of failing at once.
    pub(crate) patient: bool,
}

struct QueuedRequest {
    request: Request,
    reply: oneshot::Sender<RedisResult<Value>>,
}

impl From<Cmd> for Request {
    fn from(command: Cmd) -> Request {
        Request {
            command,
            asking: false,
            replicas: 0,
            await_replicas: false,
            patient: false,
        }
    }
}

impl Batcher {
    /// Starts sending, on the current runtime. A batch with requests that await replicas ends with the
    /// trailer.
    pub(crate) fn start(redis: MultiplexedConnection, trailer: Option<Cmd>) -> Batcher {
        let (requests, received) = mpsc::unbounded_channel();
        Batcher {
            requests,
            task: tokio::spawn(send(redis, received, trailer)),
        }
    }

    /// Submits a request. Its reply arrives unless the connection ends.
    pub(crate) fn submit(&self, request: Request) -> oneshot::Receiver<RedisResult<Value>> {
        let (reply, replied) = oneshot::channel();
        let _ = self.requests.send(QueuedRequest { request, reply });
        replied
    }
}

impl Drop for Batcher {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn send(
    mut redis: MultiplexedConnection,
    mut requests: UnboundedReceiver<QueuedRequest>,
    trailer: Option<Cmd>,
) {
    let mut batch = Vec::new();
    while requests.recv_many(&mut batch, MAX_BATCH).await > 0 {
        let mut pipeline = Pipeline::with_capacity(batch.len());
        let mut replies = Vec::with_capacity(batch.len());
        let mut commands = 0;
        for QueuedRequest { request, reply } in batch.drain(..) {
            // The caller no longer waits, and the request has not been sent.
            if reply.is_closed() {
                continue;
            }
            if request.asking {
                pipeline.cmd("ASKING");
            }
            pipeline.add_command(request.command);
            commands += 1 + usize::from(request.asking);
            replies.push((reply, request.asking, request.await_replicas));
        }
        let trailer = trailer.as_ref();
        let trailer =
            trailer.filter(|_| replies.iter().any(|(_, _, await_replicas)| *await_replicas));
        if let Some(trailer) = trailer {
            pipeline.add_command(trailer.clone());
            commands += 1;
        }
        match redis.send_packed_commands(&pipeline, 0, commands).await {
            Ok(mut values) => {
                let trailed = trailer.and_then(|_| values.pop());
                let mut values = values.into_iter();
                for (reply, asked, await_replicas) in replies {
                    // The reply to `ASKING` carries no information.
                    let Some(value) = values.nth(usize::from(asked)) else {
                        continue;
                    };
                    let _ = reply.send(match &trailed {
                        Some(trailed) if await_replicas => pair(value, trailed.clone()),
                        _ => value.extract_error(),
                    });
                }
            }
            Err(error) => {
                for (reply, ..) in replies {
                    let _ = reply.send(Err(error.clone()));
                }
            }
        }
    }
}

fn pair(value: Value, trailed: Value) -> RedisResult<Value> {
    let pair = vec![value.extract_error()?, trailed.extract_error()?];
    Ok(Value::Array(pair))
}
