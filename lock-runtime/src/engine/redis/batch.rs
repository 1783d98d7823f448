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

/// What is sent, and must not be separated.
pub(crate) struct Request {
    /// A node of a cluster is told first that another one sent the command there.
    asking: bool,
    command: Cmd,
}

struct HandedIn {
    request: Request,
    answer: oneshot::Sender<RedisResult<Value>>,
}

impl Request {
    pub(crate) fn asking(command: Cmd) -> Request {
        Request {
            asking: true,
            command,
        }
    }

    pub(crate) fn is_asking(&self) -> bool {
        self.asking
    }

    /// The command alone.
    pub(crate) fn command(self) -> Cmd {
        self.command
    }
}

impl From<Cmd> for Request {
    fn from(command: Cmd) -> Request {
        Request {
            asking: false,
            command,
        }
    }
}

impl Batches {
    /// Starts sending, on the present runtime.
    pub(crate) fn start(redis: MultiplexedConnection) -> Batches {
        let (requests, received) = mpsc::unbounded_channel();
        Batches {
            requests,
            task: tokio::spawn(send(redis, received)),
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

async fn send(mut redis: MultiplexedConnection, mut requests: UnboundedReceiver<HandedIn>) {
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
            answers.push((answer, request.asking));
        }
        match redis.send_packed_commands(&pipeline, 0, commands).await {
            Ok(values) => {
                let mut values = values.into_iter();
                for (answer, asked) in answers {
                    // What `ASKING` was answered tells nothing.
                    if let Some(value) = values.nth(usize::from(asked)) {
                        let _ = answer.send(value.extract_error());
                    }
                }
            }
            Err(error) => {
                for (answer, _) in answers {
                    let _ = answer.send(Err(error.clone()));
                }
            }
        }
    }
}
