//! Writes the requests of a connection, and reads the replies.

use crate::engine::redis::conn::batch::Slots;
use crate::engine::redis::conn::batch::effects::Effects;
use crate::engine::redis::conn::pipeline::Pipeline;
use crate::engine::redis::conn::socket::Stream;
use crate::engine::redis::wire::encode::Output;
use crate::engine::redis::wire::reply;
use crate::engine::token::Draw;
use crate::util::time::now;
use std::mem::replace;
use std::pin::Pin;
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
}

/// The connection is no longer usable.
pub(super) struct Broken;

impl Exchange {
    pub(super) fn new(stream: Stream, output: Output) -> Exchange {
        Exchange {
            stream,
            output,
            input: vec![0; READ_SIZE],
            filled: 0,
            random: Vec::new(),
            stepped_back: false,
            effects: Effects::default(),
        }
    }

    /// Writes and reads as much as possible. Is ready when the connection has ended. With `helps`, no other task
    /// goes first.
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
                if self.take_requests(&mut slots).is_err() {
                    return Poll::Ready(Broken);
                }
                again = slots.has_unsent();
            }
            let written = self.poll_write(context);
            let read = self.poll_read(pipeline, context);
            match (written, read) {
                (Poll::Ready(Err(_)), _) | (_, Poll::Ready(Err(_))) => return Poll::Ready(Broken),
                (_, Poll::Ready(Ok(()))) => {}
                (Poll::Ready(Ok(())), _) if again => {}
                _ => return Poll::Pending,
            }
        }
    }

    /// Returns `true` once before each write if more requests are expected: then the other tasks that are ready add
    /// theirs first. This multiplies the throughput under load, and delays no lone request.
    fn steps_back(&mut self, slots: &Slots) -> bool {
        slots.expects_more() && !replace(&mut self.stepped_back, true)
    }

    /// Encodes the unsent requests.
    fn take_requests(&mut self, slots: &mut Slots) -> Result<(), Broken> {
        self.stepped_back = false;
        // One system call for the tokens of a whole write. No random byte is kept for later: a virtual machine
        // that is cloned must not repeat a token.
        self.random.clear();
        self.random.resize(16 * slots.unsent_acquisitions(), 0);
        if !self.random.is_empty() {
            getrandom::fill(&mut self.random).map_err(|_| Broken)?;
        }
        let made_at = SystemTime::now();
        let draws = self.random.chunks_exact(16).filter_map(|bytes| {
            let random = bytes.try_into().ok()?;
            Some(Draw { random, made_at })
        });
        slots.write(draws, &mut self.output, now);
        Ok(())
    }

    fn poll_write(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        while !self.output.rest().is_empty() {
            let stream = Pin::new(&mut *self.stream);
            match ready!(stream.poll_write(context, self.output.rest())) {
                Ok(0) | Err(_) => return Poll::Ready(Err(Broken)),
                Ok(written) => self.output.advance(written),
            }
        }
        let flushed = Pin::new(&mut *self.stream).poll_flush(context);
        flushed.map_err(|_| Broken)
    }

    /// Reads once, and reports the replies that are complete.
    fn poll_read(
        &mut self,
        pipeline: &Pipeline,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Broken>> {
        if self.filled == self.input.len() {
            self.input.resize(self.filled + READ_SIZE, 0);
        }
        let mut buffer = ReadBuf::new(&mut self.input[self.filled..]);
        let read = ready!(Pin::new(&mut *self.stream).poll_read(context, &mut buffer));
        let read = read.map(|()| buffer.filled().len());
        self.filled += match read {
            Ok(0) | Err(_) => return Poll::Ready(Err(Broken)),
            Ok(read) => read,
        };
        let reported = self.report_replies(pipeline);
        self.effects.perform();
        Poll::Ready(reported)
    }

    fn report_replies(&mut self, pipeline: &Pipeline) -> Result<(), Broken> {
        let (mut used, time) = (0, now());
        let mut slots = pipeline.slots();
        loop {
            let rest = &self.input[used..self.filled];
            let Some(length) = reply::length(rest).map_err(|_| Broken)? else {
                break;
            };
            let bytes = &rest[..length];
            used += length;
            // A message without a request.
            if bytes.starts_with(b">") {
                continue;
            }
            let reply = reply::parse(bytes).map_err(|_| Broken)?;
            let taken = slots.take_reply(reply, time, &mut self.effects);
            taken.map_err(|_| Broken)?;
        }
        drop(slots);
        self.input.copy_within(used..self.filled, 0);
        self.filled -= used;
        Ok(())
    }
}
