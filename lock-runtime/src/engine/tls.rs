//! TLS through rustls.

use crate::config::invalid;
use crate::error::LockError;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use rustls::{ClientConfig, RootCertStore};
use std::io::{Error, Result as IoResult};
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Returns the TLS configuration, which trusts the given authorities, or those that browsers trust.
pub(crate) fn client_config(root_certificate: Option<&[u8]>) -> Result<ClientConfig, LockError> {
    let roots = match root_certificate {
        Some(pem) => roots_in(pem)?,
        None => webpki_roots::TLS_SERVER_ROOTS.iter().cloned().collect(),
    };
    // Not the process' default provider alone: without one, rustls panics if several are possible.
    let provider = CryptoProvider::get_default().cloned();
    let provider = provider.unwrap_or_else(|| Arc::new(ring::default_provider()));
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|_| {
        invalid("the cryptography provider of rustls has no ciphers for TLS; install another one")
    })?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
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
) -> IoResult<TlsStream<S>> {
    let name = ServerName::try_from(host.to_owned()).map_err(Error::other)?;
    TlsConnector::from(config.clone())
        .connect(name, stream)
        .await
}
