//! Sockets, each registered with the runtime that drives its connection.

use crate::engine::redis::address::Address;
use redis::io::tcp::socket2::SockRef;
use redis::{ConnectionAddr, ErrorKind, RedisResult};
use std::io::{self, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, lookup_host};
use tokio::runtime::{Handle, Id};
use tokio::task::JoinSet;

/// `true` once a runtime without I/O was found.
static HAS_NONE: AtomicBool = AtomicBool::new(false);

/// Returns `true` if a runtime may drive a connection.
///
/// tokio does not reveal whether a runtime has I/O: it panics when a socket is registered with one that has
/// none. That is found out on the I/O thread, once in a process, and never where a panic aborts the process.
pub(super) fn may_be_driven() -> bool {
    !cfg!(panic = "abort") && !HAS_NONE.load(Ordering::Relaxed)
}

/// A connected socket, encrypted if the address asks for it.
pub(super) type Stream = Box<dyn Duplex>;

pub(super) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Duplex for S {}

/// Connects to a server. Must be called on the I/O thread; `runtime` is the one that will drive the
/// connection.
pub(super) async fn connect(address: &Address, runtime: &Handle) -> RedisResult<Stream> {
    match address.addr() {
        ConnectionAddr::Tcp(host, port) => Ok(Box::new(tcp(address, host, *port, runtime).await?)),
        #[cfg(feature = "tls")]
        ConnectionAddr::TcpTls {
            host,
            port,
            insecure: false,
            ..
        } => {
            let stream = tcp(address, host, *port, runtime).await?;
            Ok(Box::new(address.encrypt(host, stream).await?))
        }
        #[cfg(unix)]
        ConnectionAddr::Unix(path) => {
            use tokio::net::UnixStream;
            let stream = UnixStream::connect(path).await?.into_std()?;
            let stream = register(runtime, || UnixStream::from_std(stream))?;
            Ok(Box::new(stream))
        }
        _ => Err((ErrorKind::InvalidClientConfig, "no such address").into()),
    }
}

async fn tcp(
    address: &Address,
    host: &str,
    port: u16,
    runtime: &Handle,
) -> io::Result<Socket<TcpStream>> {
    let stream = connect_to_any(host, port).await?;
    let settings = address.tcp_settings();
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

/// Connects to all addresses of a host at once, and returns the first connection.
async fn connect_to_any(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut connecting = JoinSet::new();
    for address in lookup_host((host, port)).await? {
        connecting.spawn(TcpStream::connect(address));
    }
    let mut failure = io::Error::other("the host has no address");
    while let Some(connected) = connecting.join_next().await {
        match connected {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => failure = error,
            Err(error) => failure = error.into(),
        }
    }
    Err(failure)
}

fn register<S>(runtime: &Handle, stream: impl FnOnce() -> io::Result<S>) -> io::Result<Socket<S>> {
    let socket = |stream| Socket {
        stream,
        runtime: runtime.id(),
    };
    if Handle::try_current().is_ok_and(|present| present.id() == runtime.id()) {
        return stream().map(socket);
    }
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
    stream.map(socket)
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
