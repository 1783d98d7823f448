//! Whether a pooler is between this process and the server.
//!
//! A pooler makes up the process id that it announces when a connection begins. The driver shows that id only
//! in the request which cancels a statement; the request is written to memory here, and never sent.

use crate::util::sync::Mutex;
use std::future::{Ready, ready};
use std::io::{Error, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::Client;
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};

/// Returns `true` unless the server's process with that id announced itself.
pub(crate) async fn is_between(client: &Client, pid: i32) -> bool {
    announced(client).await != Some(pid)
}

async fn announced(client: &Client) -> Option<i32> {
    let record = Record::default();
    let token = client.cancel_token();
    token.cancel_query_raw(record.clone(), Plain).await.ok()?;
    let written = record.0.lock();
    // The request ends with the process id and a secret, of four bytes each.
    let rest = written.len().checked_sub(8)?;
    let id = written.get(rest..rest + 4)?;
    Some(i32::from_be_bytes(id.try_into().ok()?))
}

/// The bytes that were written.
#[derive(Clone, Default)]
struct Record(Arc<Mutex<Vec<u8>>>);

/// Instead of TLS.
struct Plain;

impl TlsConnect<Record> for Plain {
    type Stream = Record;
    type Error = Error;
    type Future = Ready<Result<Record>>;

    fn connect(self, stream: Record) -> Self::Future {
        ready(Ok(stream))
    }
}

impl TlsStream for Record {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for Record {
    /// Agrees to TLS, which is the only question.
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        buffer.put_slice(b"S");
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Record {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        let mut written = self.0.lock();
        written.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<()>> {
        Poll::Ready(Ok(()))
    }
}
