//! Encrypts connections.

use crate::engine::tls::{Encrypted, encrypt};
use rustls::ClientConfig;
use std::future::Future;
use std::io::{Error, Result};
use std::pin::Pin;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};

#[derive(Clone)]
pub(crate) struct Tls(pub(crate) Arc<ClientConfig>);

/// Encrypts one connection to the host of that name.
pub(crate) struct TlsTo {
    config: Arc<ClientConfig>,
    host: String,
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> MakeTlsConnect<S> for Tls {
    type Stream = Encrypted<S>;
    type TlsConnect = TlsTo;
    type Error = Error;

    fn make_tls_connect(&mut self, host: &str) -> Result<TlsTo> {
        Ok(TlsTo {
            config: self.0.clone(),
            host: host.to_owned(),
        })
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> TlsConnect<S> for TlsTo {
    type Stream = Encrypted<S>;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<Encrypted<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move { encrypt(&self.config, &self.host, stream).await })
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Encrypted<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}
