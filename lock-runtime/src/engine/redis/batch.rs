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
    requests: UnboundedSender<Request>,
    task: JoinHandle<()>,
}

struct Request {
    command: Cmd,
    answer: oneshot::Sender<RedisResult<Value>>,
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

    /// Hands a command in; its answer comes, unless the connection ends.
    pub(crate) fn hand_in(&self, command: Cmd) -> oneshot::Receiver<RedisResult<Value>> {
        let (answer, answered) = oneshot::channel();
        let _ = self.requests.send(Request { command, answer });
        answered
    }
}

impl Drop for Batches {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn send(mut redis: MultiplexedConnection, mut requests: UnboundedReceiver<Request>) {
    let mut batch = Vec::new();
    while requests.recv_many(&mut batch, MOST).await > 0 {
        let mut pipeline = Pipeline::with_capacity(batch.len());
        let mut answers = Vec::with_capacity(batch.len());
        for request in batch.drain(..) {
            // Nobody waits for it any more, and it has not been sent.
            if !request.answer.is_closed() {
                pipeline.add_command(request.command);
                answers.push(request.answer);
            }
        }
        match redis
            .send_packed_commands(&pipeline, 0, answers.len())
            .await
        {
            Ok(values) => {
                for (answer, value) in answers.into_iter().zip(values) {
                    let _ = answer.send(value.extract_error());
                }
            }
            Err(error) => {
                for answer in answers {
                    let _ = answer.send(Err(error.clone()));
                }
            }
        }
    }
}
