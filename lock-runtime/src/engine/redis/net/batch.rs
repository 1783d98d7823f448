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
const MOST: usize = 256;

/// The way into a connection that sends in batches. Its task ends when it is dropped.
pub(crate) struct Batches {
    requests: UnboundedSender<HandedIn>,
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
    pub(crate) acknowledged: bool,
    /// Whether it waits for a connection while there is none, instead of failing at once.
    pub(crate) patient: bool,
}

struct HandedIn {
    request: Request,
    answer: oneshot::Sender<RedisResult<Value>>,
}

impl From<Cmd> for Request {
    fn from(command: Cmd) -> Request {
        Request {
            command,
            asking: false,
            replicas: 0,
            acknowledged: false,
            patient: false,
        }
    }
}

impl Batches {
    /// Starts sending, on the present runtime. A batch with requests that are to be acknowledged ends
    /// with the closing command.
    pub(crate) fn start(redis: MultiplexedConnection, closing: Option<Cmd>) -> Batches {
        let (requests, received) = mpsc::unbounded_channel();
        Batches {
            requests,
            task: tokio::spawn(send(redis, received, closing)),
        }
    }

    /// Hands a request in; its answer comes, unless the connection ends.
    pub(crate) fn hand_in(&self, request: Request) -> oneshot::Receiver<RedisResult<Value>> {
        let (answer, answered) = oneshot::channel();
        let _ = self.requests.send(HandedIn { request, answer });
        answered
    }
}

impl Drop for Batches {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn send(
    mut redis: MultiplexedConnection,
    mut requests: UnboundedReceiver<HandedIn>,
    closing: Option<Cmd>,
) {
    let mut batch = Vec::new();
    while requests.recv_many(&mut batch, MOST).await > 0 {
        let mut pipeline = Pipeline::with_capacity(batch.len());
        let mut answers = Vec::with_capacity(batch.len());
        let mut commands = 0;
        for HandedIn { request, answer } in batch.drain(..) {
            // Nobody waits for it any more, and it has not been sent.
            if answer.is_closed() {
                continue;
            }
            if request.asking {
                pipeline.cmd("ASKING");
            }
            pipeline.add_command(request.command);
            commands += 1 + usize::from(request.asking);
            answers.push((answer, request.asking, request.acknowledged));
        }
        let closing = closing.as_ref();
        let closing = closing.filter(|_| answers.iter().any(|(_, _, acknowledged)| *acknowledged));
        if let Some(closing) = closing {
            pipeline.add_command(closing.clone());
            commands += 1;
        }
        match redis.send_packed_commands(&pipeline, 0, commands).await {
            Ok(mut values) => {
                let closed = closing.and_then(|_| values.pop());
                let mut values = values.into_iter();
                for (answer, asked, acknowledged) in answers {
                    // What `ASKING` was answered tells nothing.
                    let Some(value) = values.nth(usize::from(asked)) else {
                        continue;
                    };
                    let _ = answer.send(match &closed {
                        Some(closed) if acknowledged => pair(value, closed.clone()),
                        _ => value.extract_error(),
                    });
                }
            }
            Err(error) => {
                for (answer, ..) in answers {
                    let _ = answer.send(Err(error.clone()));
                }
            }
        }
    }
}

fn pair(value: Value, closed: Value) -> RedisResult<Value> {
    let pair = vec![value.extract_error()?, closed.extract_error()?];
    Ok(Value::Array(pair))
}
