//! Requests of many callers, sent in few writes.
//!
//! What comes in while a batch is out goes out together in the next one. A lone request waits for
//! nobody; under load the batches grow by themselves, and with them what a connection can carry.

use redis::aio::MultiplexedConnection;
use redis::{Cmd, Pipeline, RedisResult, Value};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// So many requests at once are enough; the server serves others in between.
const MAX_BATCH: usize = 256;

/// The way into a connection that sends in batches. Its task ends when it is dropped.
pub(crate) struct Batcher {
    requests: UnboundedSender<QueuedRequest>,
    task: JoinHandle<()>,
}

/// A command, and what goes with it.
#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) command: Cmd,
    /// A node of a cluster is told first that another one sent the command there.
    pub(crate) asking: bool,
    /// It goes over the connection on which so many replicas are waited for; 0 is the usual one.
    pub(crate) replicas: u32,
    /// Whether they are waited for. Then the answer is a pair: the command's own, and how many know.
    pub(crate) await_replicas: bool,
    /// Whether it waits for a connection while there is none, instead of failing at once.
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
    /// Starts sending, on the present runtime. A batch with requests that are to be acknowledged ends
    /// with the closing command.
    pub(crate) fn start(redis: MultiplexedConnection, trailer: Option<Cmd>) -> Batcher {
        let (requests, received) = mpsc::unbounded_channel();
        Batcher {
            requests,
            task: tokio::spawn(send(redis, received, trailer)),
        }
    }

    /// Hands a request in; its answer comes, unless the connection ends.
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
            // Nobody waits for it any more, and it has not been sent.
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
                    // What `ASKING` was answered tells nothing.
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
