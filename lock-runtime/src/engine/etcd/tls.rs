//! TLS to the members.

use crate::config::invalid;
use crate::error::LockError;
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use std::io::Error;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

pub(super) struct Tls(Arc<rustls::ClientConfig>);

impl Tls {
    /// Trusts the authorities in `root_certificate`, or those that browsers trust.
    pub(super) fn new(root_certificate: Option<&[u8]>) -> Result<Tls, LockError> {
        let mut roots = rustls::RootCertStore::empty();
        match root_certificate {
            Some(pem) => {
                let readable = CertificateDer::pem_slice_iter(pem)
                    .all(|certificate| certificate.is_ok_and(|it| roots.add(it).is_ok()));
                if !readable || roots.is_empty() {
                    return Err(invalid(
                        "`root_certificate` is not a PEM certificate; give it the authority's \
                         certificate, from `-----BEGIN CERTIFICATE-----` to `-----END CERTIFICATE-----`",
                    ));
                }
            }
            None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ClientConfig::builder_with_provider(provider);
        let builder = builder.with_safe_default_protocol_versions();
        let builder = builder.map_err(|_| invalid("the versions of TLS do not fit the ciphers"))?;
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Tls(Arc::new(config)))
    }

    pub(super) async fn encrypt(
        &self,
        host: &str,
        stream: TcpStream,
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from(host.to_owned()).map_err(Error::other)?;
        let connector = tokio_rustls::TlsConnector::from(self.0.clone());
        connector.connect(name, stream).await
    }
}
