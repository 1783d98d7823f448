//! A certificate authority for tests, and a certificate that it issues for 127.0.0.1.

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

/// The certificates and the key, as PEM.
pub struct Certificates {
    pub authority: String,
    pub certificate: String,
    pub key: String,
}

impl Certificates {
    pub fn issue() -> Self {
        let authority_key = KeyPair::generate().unwrap();
        let mut authority = CertificateParams::default();
        // With the default name, which the certificate also has, OpenSSL would take the certificate for its
        // own authority.
        authority
            .distinguished_name
            .push(DnType::CommonName, "the authority");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority_certificate = authority.self_signed(&authority_key).unwrap();
        let issuer = Issuer::new(authority, authority_key);

        let key = KeyPair::generate().unwrap();
        let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
        let mut server = CertificateParams::new(names).unwrap();
        // With the authority's name it would look self-signed.
        server
            .distinguished_name
            .push(DnType::CommonName, "redis-server");
        let certificate = server.signed_by(&key, &issuer).unwrap();
        Self {
            authority: authority_certificate.pem(),
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        }
    }
}
