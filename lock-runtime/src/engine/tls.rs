//! TLS through rustls.

use crate::config::{Config, invalid};
use crate::error::LockError;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject};
use rustls::{ClientConfig, RootCertStore};
use std::io::{Error, ErrorKind, IoSlice, Result as IoResult};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Returns the TLS configuration, which trusts the given authorities, or those that browsers trust, and shows
/// the certificate of the client, if there is one.
pub(crate) fn client_config(config: &Config) -> Result<ClientConfig, LockError> {
    let roots = match &config.root_certificate {
        Some(pem) => roots_in(pem)?,
        None => webpki_roots::TLS_SERVER_ROOTS.iter().cloned().collect(),
    };
    // Not the process' default provider alone: without one, rustls panics if several are possible.
    let provider = CryptoProvider::get_default().cloned();
    let provider = provider.unwrap_or_else(|| Arc::new(ring::default_provider()));
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|_| {
        invalid("the cryptography provider of rustls has no ciphers for TLS; install another one")
    })?;
    let builder = builder.with_root_certificates(roots);
    let Some((certificates, key)) = &config.client_certificate else {
        return Ok(builder.with_no_client_auth());
    };
    let (certificates, key) = (chain_in(certificates)?, key_in(key)?);
    let built = builder.with_client_auth_cert(certificates, key);
    built.map_err(|error| LockError::InvalidConfig {
        reason: format!(
            "the certificate and the key of `client_certificate` can't be used together: {error}; give it the \
             key of the first certificate"
        ),
        source: Some(Arc::new(error)),
    })
}

/// Returns whether TLS is set up although the URL may not ask for it.
pub(crate) fn has_certificates(config: &Config) -> bool {
    config.root_certificate.is_some() || config.client_certificate.is_some()
}

fn chain_in(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, LockError> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match chain {
        Ok(chain) if !chain.is_empty() => Ok(chain),
        _ => Err(invalid(
            "the certificate of `client_certificate` is not in PEM format; give it the text from \
             `-----BEGIN CERTIFICATE-----` to `-----END CERTIFICATE-----`",
        )),
    }
}

fn key_in(pem: &[u8]) -> Result<PrivateKeyDer<'static>, LockError> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|_| {
        invalid(
            "the key of `client_certificate` is no private key in PEM format; give it the text from \
             `-----BEGIN PRIVATE KEY-----` to `-----END PRIVATE KEY-----`, without a passphrase",
        )
    })
}

fn roots_in(pem: &[u8]) -> Result<RootCertStore, LockError> {
    let mut roots = RootCertStore::empty();
    let readable = CertificateDer::pem_slice_iter(pem)
        .all(|certificate| certificate.is_ok_and(|it| roots.add(it).is_ok()));
    // A file without certificates would trust no server.
    match readable && !roots.is_empty() {
        true => Ok(roots),
        false => Err(invalid(
            "`root_certificate` is not a PEM certificate; give it the authority's certificate, from \
             `-----BEGIN CERTIFICATE-----` to `-----END CERTIFICATE-----`",
        )),
    }
}

/// Encrypts a stream to the host of that name.
pub(crate) async fn encrypt<S: AsyncRead + AsyncWrite + Unpin>(
    config: &Arc<ClientConfig>,
    host: &str,
    stream: S,
) -> IoResult<Encrypted<S>> {
    let name = ServerName::try_from(host.to_owned()).map_err(Error::other)?;
    let connector = TlsConnector::from(config.clone());
    let shows_certificate = config.client_auth_cert_resolver.has_certs();
    match connector.connect(name, stream).await {
        Ok(stream) => Ok(Encrypted {
            stream,
            shows_certificate,
            is_answered: false,
        }),
        Err(error) if is_alert(&error) => Err(refused(&error, shows_certificate)),
        Err(error) => Err(error),
    }
}

/// An encrypted stream.
///
/// With TLS 1.3, a server refuses the certificate of a client, or the lack of one, only when the handshake is
/// over for the client; before its alert arrives, a write may fail. So until the server has sent something,
/// each failure says of certificates.
pub(crate) struct Encrypted<S> {
    stream: TlsStream<S>,
    shows_certificate: bool,
    is_answered: bool,
}

impl<S> Encrypted<S> {
    fn explain<T>(&self, done: IoResult<T>) -> IoResult<T> {
        match done {
            Err(error) if !self.is_answered => Err(refused(&error, self.shows_certificate)),
            done => done,
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Encrypted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<IoResult<()>> {
        let before = buffer.filled().len();
        let has_room = buffer.remaining() > 0;
        let mut read = ready!(Pin::new(&mut self.stream).poll_read(context, buffer));
        if buffer.filled().len() > before {
            self.is_answered = true;
        } else if has_room && !self.is_answered && read.is_ok() {
            read = Err(ErrorKind::UnexpectedEof.into());
        }
        Poll::Ready(self.explain(read))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Encrypted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<IoResult<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(context, bytes));
        Poll::Ready(self.explain(written))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<IoResult<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write_vectored(context, bytes));
        Poll::Ready(self.explain(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<IoResult<()>> {
        let flushed = ready!(Pin::new(&mut self.stream).poll_flush(context));
        Poll::Ready(self.explain(flushed))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<IoResult<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Returns `true` if the server has sent an alert.
fn is_alert(error: &Error) -> bool {
    let error = error.get_ref().and_then(|error| error.downcast_ref());
    matches!(error, Some(rustls::Error::AlertReceived(_)))
}

/// Returns the error of a connection that the server ends before it has said anything.
fn refused(error: &Error, shows_certificate: bool) -> Error {
    let remedy = match shows_certificate {
        true => "check that it accepts the certificate of `client_certificate`",
        false => "if it demands certificates of clients, set `client_certificate`",
    };
    let words = format!("the server ended the connection at the TLS handshake: {error}; {remedy}");
    Error::new(error.kind(), words)
}
