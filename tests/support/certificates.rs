//! An authority of the test's own and what it vouches for: a server at 127.0.0.1.

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

/// All in PEM.
pub struct Certificates {
    pub authority: String,
    pub certificate: String,
    pub key: String,
}

impl Certificates {
    pub fn new() -> Self {
        let authority_key = KeyPair::generate().unwrap();
        let mut authority = CertificateParams::default();
        // Otherwise OpenSSL takes the certificate, which is called the same, for its own authority.
        authority
            .distinguished_name
            .push(DnType::CommonName, "the authority");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority_certificate = authority.self_signed(&authority_key).unwrap();
        let issuer = Issuer::new(authority, authority_key);

        let key = KeyPair::generate().unwrap();
        let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
        let mut server = CertificateParams::new(names).unwrap();
        // With the authority's own name it would look like one that vouches for itself.
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
