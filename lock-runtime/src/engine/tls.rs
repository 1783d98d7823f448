//! TLS through rustls.

use crate::config::invalid;
use crate::error::LockError;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, pem::PemObject};
use std::sync::Arc;

/// Returns the TLS configuration, which trusts the given authorities, or those that browsers trust.
pub(crate) fn client_config(
    root_certificate: Option<&[u8]>,
) -> Result<Arc<rustls::ClientConfig>, LockError> {
    install_crypto_provider();
    let mut roots = rustls::RootCertStore::empty();
    match root_certificate {
        Some(pem) => {
            let readable = CertificateDer::pem_slice_iter(pem)
                .all(|certificate| certificate.is_ok_and(|it| roots.add(it).is_ok()));
            // The driver accepts a file without certificates, and would trust no server.
            if !readable || roots.is_empty() {
                return Err(invalid(
                    "`root_certificate` is not a PEM certificate; give it the authority's certificate, \
                     from `-----BEGIN CERTIFICATE-----` to `-----END CERTIFICATE-----`",
                ));
            }
        }
        None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
    }
    let config = rustls::ClientConfig::builder().with_root_certificates(roots);
    Ok(Arc::new(config.with_no_client_auth()))
}

/// Installs a cryptography provider, without which rustls panics, as it does if several are possible.
pub(crate) fn install_crypto_provider() {
    if CryptoProvider::get_default().is_none() {
        // An error means that another thread was first.
        let _ = ring::default_provider().install_default();
    }
}
