//! Writes the requests of a connection, and reads the replies.

use crate::engine::error::EngineError;
use crate::engine::redis::conn::batch::Slots;
use crate::engine::redis::conn::batch::effects::Effects;
use crate::engine::redis::conn::pipeline::{Pipeline, has_ended};
use crate::engine::redis::conn::socket::Stream;
use crate::engine::redis::wire::encode::Output;
use crate::engine::redis::wire::error::{connect_error, not_redis};
use crate::engine::redis::wire::reply;
use crate::engine::token::Draw;
use crate::util::panics::catch;
use crate::util::time::now;
use redis::{PushKind, Value};
use std::io;
use std::mem::replace;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::SystemTime;
use tokio::io::ReadBuf;

/// The size of one read, and of the first buffer.
const READ_SIZE: usize = 16 * 1024;

/// The socket of a connection and its buffers. Only the thread that drives the connection uses them.
pub(super) struct Exchange {
    stream: Stream,
    output: Output,
    input: Vec<u8>,
    /// The number of bytes in `input` that no complete reply has used yet.
    filled: usize,
    /// The random bytes of the tokens of one write.
    random: Vec<u8>,
    /// `true` if the driver has let other tasks go first.
    pub(super) stepped_back: bool,
    effects: Effects,
    /// Called with each message; `None` on a connection that has not subscribed to any.
    on_message: Option<MessageHandler>,
    messages: Vec<Vec<Value>>,
}

pub(super) type MessageHandler = Arc<dyn Fn(&[Value]) + Send + Sync>;

/// The connection is no longer usable.
pub(super) struct Broken;

impl Exchange {
    pub(super) fn new(
        stream: Stream,
        output: Output,
        on_message: Option<MessageHandler>,
    ) -> Exchange {
        Exchange {
            stream,
            output,
            input: vec![0; READ_SIZE],
            filled: 0,
            random: Vec::new(),
            stepped_back: false,
            effects: Effects::default(),
            on_message,
            messages: Vec::new(),
        }
    }

    /// Writes and reads as much as possible. Is ready when the connection has ended. With `helps`, no other
    /// task goes first.
    pub(super) fn poll(
        &mut self,
        pipeline: &Pipeline,
        context: &mut Context<'_>,
        helps: bool,
    ) -> Poll<Broken> {
        loop {
            // While the socket was full, more requests may have come.
            let mut again = true;
            if self.output.rest().is_empty() {
                let mut slots = pipeline.slots();
                if !helps && self.steps_back(&slots) {
                    drop(slots);
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                if let Err(error) = self.take_requests(&mut slots) {
                    pipeline.break_by(error);
                    return Poll::Ready(Broken);
                }
                again = slots.has_unsent();
            }
            let written = self.poll_write(context);
            let read = self.poll_read(pipeline, context);
            match (written, read) {
                (_, Poll::Ready(Err(error))) | (Poll::Ready(Err(error)), _) => {
                    pipeline.break_by(error);
                    return Poll::Ready(Broken);
                }
                (_, Poll::Ready(Ok(()))) => {}
                (Poll::Ready(Ok(())), _) if again => {}
                _ => return Poll::Pending,
            }
        }
    }

    /// Returns `true` once before each write if more requests are expected: then the other tasks that are
    /// ready add theirs first. This multiplies the throughput under load, and delays no lone request.
    fn steps_back(&mut self, slots: &Slots) -> bool {
        slots.expects_more() && !replace(&mut self.stepped_back, true)
    }

    /// Encodes the unsent requests.
    fn take_requests(&mut self, slots: &mut Slots) -> Result<(), EngineError> {
        self.stepped_back = false;
        // One system call for the tokens of a whole write. No random byte is kept for later: a virtual
        // machine that is cloned must not repeat a token.
        self.random.clear();
        self.random.resize(16 * slots.unsent_acquisitions(), 0);
        if !self.random.is_empty() {
            getrandom::fill(&mut self.random).map_err(|_| has_ended())?;
        }
        let made_at = SystemTime::now();
        let draws = self.random.chunks_exact(16).filter_map(|bytes| {
            let random = bytes.try_into().ok()?;
            Some(Draw { random, made_at })
        });
        slots.write(draws, &mut self.output, now);
        Ok(())
    }

    fn poll_write(&mut self, context: &mut Context<'_>) -> Poll<Result<(), EngineError>> {
        while !self.output.rest().is_empty() {
            let (stream, rest) = (Pin::new(&mut *self.stream), self.output.rest());
            let written = ready!(stream.poll_write(context, rest));
            match unless_closed(written, rest.len())? {
                0 => return Poll::Ready(Err(has_ended())),
                written => self.output.advance(written),
            }
        }
        let flushed = ready!(Pin::new(&mut *self.stream).poll_flush(context));
        Poll::Ready(unless_closed(flushed, ()))
    }

    /// Reads once, and reports the replies that are complete.
    fn poll_read(
        &mut self,
        pipeline: &Pipeline,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), EngineError>> {
        if self.filled == self.input.len() {
            self.input.resize(self.filled + READ_SIZE, 0);
        }
        let mut buffer = ReadBuf::new(&mut self.input[self.filled..]);
        ready!(Pin::new(&mut *self.stream).poll_read(context, &mut buffer)).map_err(failed)?;
        self.filled += match buffer.filled().len() {
            0 => return Poll::Ready(Err(has_ended())),
            read => read,
        };
        let reported = self.report_replies(pipeline);
        self.effects.perform();
        for message in self.messages.drain(..) {
            if let Some(on_message) = &self.on_message {
                let _ = catch(|| on_message(&message));
            }
        }
        Poll::Ready(reported)
    }

    fn report_replies(&mut self, pipeline: &Pipeline) -> Result<(), EngineError> {
        let (mut used, time) = (0, now());
        let mut slots = pipeline.slots();
        loop {
            let rest = &self.input[used..self.filled];
            let Some(length) = reply::length(rest).map_err(|_| not_redis())? else {
                break;
            };
            let bytes = &rest[..length];
            used += length;
            let is_push = bytes.starts_with(b">");
            if is_push && self.on_message.is_none() {
                continue;
            }
            let reply = match reply::parse(bytes).map_err(connect_error)? {
                Value::Push {
                    kind: PushKind::Message,
                    data,
                } => {
                    self.messages.push(data);
                    continue;
                }
                // The reply to the request that subscribes to one channel.
                Value::Push {
                    kind: PushKind::Subscribe,
                    ..
                } => Value::Okay,
                _ if is_push => continue,
                // The last words of a server that turns the client away before its first request.
                Value::ServerError(error) if !slots.expects_reply() => {
                    return Err(connect_error(error.into()));
                }
                reply => reply,
            };
            let taken = slots.take_reply(reply, time, &mut self.effects);
            taken.map_err(|_| not_redis())?;
        }
        drop(slots);
        self.input.copy_within(used..self.filled, 0);
        self.filled -= used;
        Ok(())
    }
}

/// What is written to a server that has closed the connection counts as written. Reading goes on, and finds
/// the last words of the server, such as that it has too many clients, and then the end.
fn unless_closed<T>(written: io::Result<T>, all: T) -> Result<T, EngineError> {
    use io::ErrorKind::{BrokenPipe, ConnectionReset};

    match written {
        Err(error) if matches!(error.kind(), BrokenPipe | ConnectionReset) => Ok(all),
        written => written.map_err(failed),
    }
}

fn failed(error: io::Error) -> EngineError {
    connect_error(error.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::redis::conn::batch::slab::Outcome;
    use crate::engine::redis::conn::batch::tests::command;
    use crate::engine::redis::conn::request::Delivery;
    use crate::engine::redis::wire::encode::Encoding;
    use crate::util::sync::Mutex;
    use crate::util::time::deadline_in;
    use std::future::poll_fn;
    use std::time::Duration;
    use tokio::io::{AsyncWriteExt, DuplexStream, duplex};
    use tokio::net::{TcpListener, TcpStream};

    fn exchange(stream: Stream, on_message: Option<MessageHandler>) -> Exchange {
        let encoding = Encoding::new("lock:", false).unwrap();
        Exchange::new(stream, Output::new(encoding.into(), Vec::new()), on_message)
    }

    fn put(pipeline: &Pipeline) -> usize {
        let (request, deadline) = (command(b"c"), deadline_in(Duration::from_secs(10)));
        let put = pipeline.slots().put(request, Delivery::default(), deadline);
        put.unwrap()
    }

    async fn end(pipeline: &Pipeline, exchange: &mut Exchange) -> String {
        poll_fn(|context| exchange.poll(pipeline, context, true)).await;
        pipeline.why_ended().to_string()
    }

    #[tokio::test]
    async fn the_last_words_of_a_server_that_closes_are_read() {
        const WORDS: &str = "max number of clients reached";

        for is_first in [true, false] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let stream = TcpStream::connect(listener.local_addr().unwrap()).await;
            let (mut server, _) = listener.accept().await.unwrap();
            let words = format!("-ERR {WORDS}\r\n");
            server.write_all(words.as_bytes()).await.unwrap();
            drop(server);
            let (pipeline, mut exchange) = (
                Pipeline::default(),
                exchange(Box::new(stream.unwrap()), None),
            );
            let slot = is_first.then(|| put(&pipeline));
            // The first request makes the server reset the connection.
            for _ in 0..if is_first { 100 } else { 0 } {
                put(&pipeline);
                exchange.take_requests(&mut pipeline.slots()).unwrap();
                let written = poll_fn(|context| exchange.poll_write(context));
                written.await.unwrap();
                tokio::task::yield_now().await;
            }
            let why = end(&pipeline, &mut exchange).await;
            let reply = slot.map(|slot| pipeline.slots().poll(slot, &mut None));
            match reply {
                None => assert!(why.contains(WORDS), "{why}"),
                Some(Poll::Ready(Outcome::Reply(Value::ServerError(error), _))) => {
                    assert_eq!(error.details(), Some(WORDS));
                }
                Some(other) => panic!("{other:?}"),
            }
        }
    }

    async fn served(on_message: Option<MessageHandler>, bytes: &str) -> (Pipeline, usize, String) {
        let (stream, mut server): (DuplexStream, _) = duplex(4096);
        let (pipeline, mut exchange) =
            (Pipeline::default(), exchange(Box::new(stream), on_message));
        let slot = put(&pipeline);
        server.write_all(bytes.as_bytes()).await.unwrap();
        server.shutdown().await.unwrap();
        let why = end(&pipeline, &mut exchange).await;
        (pipeline, slot, why)
    }

    #[tokio::test]
    async fn pushes_are_messages_or_the_reply_to_a_subscription() {
        let subscribed = ">3\r\n+subscribe\r\n+a\r\n:1\r\n";
        let pushes = format!(
            ">3\r\n+message\r\n+a\r\n+one\r\n>1\r\n+other\r\n{subscribed}>3\r\n+message\r\n+a\r\n+two\r\n"
        );
        let heard = Arc::<Mutex<Vec<String>>>::default();
        let hears = heard.clone();
        let on_message: MessageHandler = Arc::new(move |message: &[Value]| {
            hears.lock().push(format!("{message:?}"));
            panic!("on purpose");
        });
        let (pipeline, slot, _) = served(Some(on_message), &pushes).await;
        let reply = pipeline.slots().poll(slot, &mut None);
        assert_eq!(reply, Poll::Ready(Outcome::Reply(Value::Okay, None)));
        let heard = heard.lock().join(" ");
        assert!(heard.contains("one") && heard.contains("two"), "{heard}");

        // A connection that has not subscribed takes no push for a reply.
        let (pipeline, slot, _) = served(None, &format!("{subscribed}:5\r\n")).await;
        let reply = pipeline.slots().poll(slot, &mut None);
        assert_eq!(reply, Poll::Ready(Outcome::Reply(Value::Int(5), None)));
    }

    #[tokio::test]
    async fn server_that_is_none_of_redis_is_named() {
        for bytes in ["HTTP/1.1 400 Bad Request\r\n\r\n", "+OK\r\n+OK\r\n"] {
            let (_, _, why) = served(None, bytes).await;
            assert!(why.contains("does not speak the Redis protocol"), "{why}");
        }
        let (_, _, why) = served(None, "+OK\r\n").await;
        assert_eq!(why, has_ended().to_string());
    }
}
