//! A connection that a caller's runtime drives: its socket is registered there.

use crate::engine::redis::net::driver::Driver;
use crate::engine::redis::net::target::Target;
use redis::aio::MultiplexedConnection;
use redis::io::tcp::socket2::SockRef;
use redis::{AsyncConnectionConfig, ConnectionAddr, ErrorKind, RedisResult};
use std::io::{self, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::runtime::{Handle, Id};

/// `true` once a runtime without I/O was found.
static HAS_NONE: AtomicBool = AtomicBool::new(false);

/// Returns `true` if a runtime may drive a connection.
///
/// tokio does not reveal whether a runtime has I/O: it panics when a socket is registered with one that has
/// none. That is found out on the I/O thread, once in a process, and never where a panic aborts the process.
pub(super) fn may_be_driven() -> bool {
    !cfg!(panic = "abort") && !HAS_NONE.load(Ordering::Relaxed)
}

/// Connects to a server. Must be called on the I/O thread.
pub(super) async fn connect(
    target: &Target,
    runtime: &Handle,
    config: AsyncConnectionConfig,
) -> RedisResult<(MultiplexedConnection, Driver)> {
    match target.addr() {
        ConnectionAddr::Tcp(host, port) => {
            let stream = tcp(target, host, *port, runtime).await?;
            greet(target, stream, runtime, config).await
        }
        #[cfg(feature = "tls")]
        ConnectionAddr::TcpTls { host, port, .. } => {
            let stream = tcp(target, host, *port, runtime).await?;
            let stream = target.encrypt(host, stream).await?;
            greet(target, stream, runtime, config).await
        }
        #[cfg(unix)]
        ConnectionAddr::Unix(path) => {
            use tokio::net::UnixStream;
            let stream = UnixStream::connect(path).await?.into_std()?;
            let stream = register(runtime, || UnixStream::from_std(stream))?;
            greet(target, stream, runtime, config).await
        }
        _ => Err((ErrorKind::InvalidClientConfig, "no such address").into()),
    }
}

async fn tcp(
    target: &Target,
    host: &str,
    port: u16,
    runtime: &Handle,
) -> io::Result<Socket<TcpStream>> {
    let stream = TcpStream::connect((host, port)).await?;
    let settings = target.client.get_connection_info().tcp_settings();
    let socket = SockRef::from(&stream);
    socket.set_tcp_nodelay(settings.nodelay())?;
    if let Some(keepalive) = settings.keepalive() {
        socket.set_tcp_keepalive(keepalive)?;
    }
    #[cfg(any(target_os = "linux", target_os = "android"))]
    socket.set_tcp_user_timeout(settings.user_timeout())?;
    let stream = stream.into_std()?;
    register(runtime, || TcpStream::from_std(stream))
}

fn register<S>(runtime: &Handle, stream: impl FnOnce() -> io::Result<S>) -> io::Result<Socket<S>> {
    let has_none = || io::Error::other("the runtime has no I/O");
    // Another connection may have found such a runtime meanwhile.
    if !may_be_driven() {
        return Err(has_none());
    }
    let _context = runtime.enter();
    let stream = catch_unwind(AssertUnwindSafe(stream)).unwrap_or_else(|_| {
        HAS_NONE.store(true, Ordering::Relaxed);
        Err(has_none())
    });
    Ok(Socket {
        stream: stream?,
        runtime: runtime.id(),
    })
}

/// A socket that can be read while its runtime is stalled. The runtime's reactor reports no input then, so a
/// poll from another runtime reads the socket itself.
struct Socket<S> {
    stream: S,
    runtime: Id,
}

impl<S: AsyncRead + Unpin> AsyncRead for Socket<S>
where
    for<'a> SockRef<'a>: From<&'a S>,
{
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        let runs = || Handle::try_current().is_ok_and(|present| present.id() == self.runtime);
        if polled.is_ready() || buffer.remaining() == 0 || runs() {
            return polled;
        }
        match (&mut &*SockRef::from(&self.stream)).read(buffer.initialize_unfilled()) {
            Ok(read) => {
                buffer.advance(read);
                Poll::Ready(Ok(()))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Socket<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

async fn greet(
    target: &Target,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    runtime: &Handle,
    config: AsyncConnectionConfig,
) -> RedisResult<(MultiplexedConnection, Driver)> {
    let settings = target.client.get_connection_info().redis_settings();
    let connected = MultiplexedConnection::new_with_config(settings, stream, config);
    let (redis, work) = connected.await?;
    Ok((redis, Driver::start(runtime, work)))
}
