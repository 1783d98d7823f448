//! Requests of this process for one record: one goes at once, and those that come meanwhile go together next.
//! Each by itself would find that another one had changed the record, and try again.

use crate::engine::error::EngineError;
use crate::util::io_thread::IoThread;
use crate::util::sync::Mutex;
use crate::util::time::deadline_in;
use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard, oneshot};
use tokio::time::Instant;

/// How long a batch waits for the one before it: the caller of that may not poll it again, and the store may
/// not reply. Under way at once they are slower, and not wrong.
const LONGEST: Duration = Duration::from_millis(100);
/// From how many records on those are looked for that are not in use.
const MANY: usize = 256;

/// A request whose caller awaits the reply.
pub(crate) struct Request<W, R> {
    pub(crate) what: W,
    deadline: Instant,
    reply: oneshot::Sender<Result<R, EngineError>>,
}

type Lines<W, R> = Arc<Mutex<HashMap<Arc<str>, Line<W, R>>>>;

/// The requests for one record.
struct Line<W, R> {
    /// Taken by the batch that is under way.
    turn: Weak<AsyncMutex<()>>,
    next: Vec<Request<W, R>>,
}

pub(crate) struct Batches<W, R>(Lines<W, R>);

impl<W, R> Default for Batches<W, R> {
    fn default() -> Self {
        Batches(Arc::default())
    }
}

impl<W: Send + 'static, R: Send + 'static> Batches<W, R> {
    /// Lets `carry_out` reply to a request, and to those that go with it. It is dropped with the caller only
    /// if the request goes by itself.
    pub(crate) async fn request<F: Future<Output = ()> + Send + 'static>(
        &self,
        io: IoThread,
        name: &Arc<str>,
        what: W,
        deadline: Instant,
        carry_out: impl FnOnce(Vec<Request<W, R>>) -> F + Send + 'static,
    ) -> Result<R, EngineError> {
        let (reply, replied) = oneshot::channel();
        let request = Request {
            what,
            deadline,
            reply,
        };
        match self.add(name, request) {
            Added::Goes(_turn, request) => carry_out(vec![request]).await,
            Added::Begins(turn) => {
                let (lines, name) = (self.0.clone(), name.clone());
                io.spawn_detached(async move {
                    let turn = io.timeout_at(deadline_in(LONGEST), turn.lock_owned());
                    let _turn = turn.await.ok();
                    let line = lines
                        .lock()
                        .get_mut(&name)
                        .map(|it| std::mem::take(&mut it.next));
                    carry_out(line.unwrap_or_default()).await;
                });
            }
            Added::Joins => {}
        }
        let replied = io.timeout_at(deadline, replied).await;
        let reply = replied.ok().and_then(Result::ok);
        reply.unwrap_or_else(|| Err(EngineError::no_reply()))
    }

    fn add(&self, name: &Arc<str>, request: Request<W, R>) -> Added<W, R> {
        let mut lines = self.0.lock();
        let is_new = !lines.contains_key(name);
        if is_new && lines.len() >= MANY && lines.len().is_power_of_two() {
            lines.retain(|_, line| line.turn.strong_count() > 0 || !line.next.is_empty());
        }
        let line = lines.entry(name.clone()).or_insert_with(|| Line {
            turn: Weak::new(),
            next: Vec::new(),
        });
        let turn = line.turn.upgrade().unwrap_or_default();
        line.turn = Arc::downgrade(&turn);
        if line.next.is_empty()
            && let Ok(taken) = turn.clone().try_lock_owned()
        {
            return Added::Goes(taken, request);
        }
        line.next.push(request);
        match line.next.len() {
            1 => Added::Begins(turn),
            _ => Added::Joins,
        }
    }
}

enum Added<W, R> {
    /// Nothing was under way.
    Goes(OwnedMutexGuard<()>, Request<W, R>),
    /// It is the first of the next batch.
    Begins(Arc<AsyncMutex<()>>),
    Joins,
}

impl<W, R> Request<W, R> {
    /// Returns `false` if the caller has left.
    pub(crate) fn is_awaited(&self) -> bool {
        !self.reply.is_closed()
    }

    pub(crate) fn reply(self, reply: Result<R, EngineError>) {
        // The caller may have left.
        let _ = self.reply.send(reply);
    }
}

/// Returns the deadline of a batch: that of the request which may last longest.
pub(crate) fn deadline_of<W, R>(batch: &[Request<W, R>]) -> Instant {
    let deadlines = batch.iter().map(|it| it.deadline);
    deadlines.max().unwrap_or_else(crate::util::time::now)
}
