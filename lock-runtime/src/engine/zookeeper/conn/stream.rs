//! The bytes of one connection, without blocking: what is to be sent, and complete messages that have come.

use crate::engine::zookeeper::wire::error::Failure;
use crate::engine::zookeeper::wire::frames::Frames;
use std::collections::VecDeque;
use std::io::{Error, ErrorKind};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

pub(crate) trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Socket for S {}

pub(crate) struct Stream {
    socket: Box<dyn Socket>,
    outgoing: VecDeque<u8>,
    incoming: Frames,
}

impl Stream {
    pub(crate) fn new(socket: Box<dyn Socket>) -> Stream {
        Stream {
            socket,
            outgoing: VecDeque::new(),
            incoming: Frames::default(),
        }
    }

    pub(crate) fn send(&mut self, message: &[u8]) {
        self.outgoing.extend(message);
    }

    /// Returns the oldest message that has come completely.
    pub(crate) fn next_message(&mut self) -> Result<Option<&[u8]>, Failure> {
        self.incoming.next_message()
    }

    /// Writes what is to be sent, and reads what has come. Is ready when bytes have come, or the connection
    /// has ended.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        while !self.outgoing.is_empty() {
            let socket = Pin::new(&mut *self.socket);
            match socket.poll_write(context, self.outgoing.as_slices().0) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(written)) => drop(self.outgoing.drain(..written)),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => break,
            }
        }
        if let Poll::Ready(Err(error)) = Pin::new(&mut *self.socket).poll_flush(context) {
            return Poll::Ready(Err(error));
        }
        let mut space = [0; 8192];
        let mut space = ReadBuf::new(&mut space);
        ready!(Pin::new(&mut *self.socket).poll_read(context, &mut space))?;
        if space.filled().is_empty() {
            let words = "the server closed the connection; it may have no majority of servers, or \
                         accept no further connections (`maxClientCnxns`)";
            return Poll::Ready(Err(Error::new(ErrorKind::UnexpectedEof, words)));
        }
        self.incoming.extend(space.filled());
        Poll::Ready(Ok(()))
    }
}
