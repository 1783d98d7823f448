//! A connection that a runtime of the caller's drives: its socket is registered there.

use super::target::Target;
use crate::driver::Driver;
use redis::aio::MultiplexedConnection;
use redis::io::tcp::socket2::SockRef;
use redis::{AsyncConnectionConfig, ConnectionAddr, ErrorKind, RedisResult};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::Handle;

/// A runtime without I/O has been met.
static HAS_NONE: AtomicBool = AtomicBool::new(false);

/// Whether a runtime may be asked to drive a connection.
///
/// tokio doesn't tell whether a runtime has I/O: it panics when a socket is registered with one that has
/// none. That is found out on the I/O thread, once in a process, and never where a panic ends it.
pub(super) fn may_be_driven() -> bool {
    !cfg!(panic = "abort") && !HAS_NONE.load(Ordering::Relaxed)
}

/// Connects to a server, to be called on the I/O thread.
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

async fn tcp(target: &Target, host: &str, port: u16, runtime: &Handle) -> io::Result<TcpStream> {
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

fn register<T>(runtime: &Handle, socket: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let _context = runtime.enter();
    catch_unwind(AssertUnwindSafe(socket)).unwrap_or_else(|_| {
        HAS_NONE.store(true, Ordering::Relaxed);
        Err(io::Error::other("the runtime has no I/O"))
    })
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
