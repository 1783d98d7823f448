//! A certificate authority for tests, and a certificate that it issues for 127.0.0.1.

use rcgen::{BasicConstraints, Certificate, CertificateParams, DnType, IsCa, Issuer, KeyPair};

/// The certificates and the key, as PEM.
pub struct Certificates {
    pub authority: String,
    pub certificate: String,
    pub key: String,
    /// `true` if servers demand certificates of their clients, which this authority has issued.
    pub are_demanded: bool,
    issuer: Issuer<'static, KeyPair>,
}

impl Certificates {
    /// Issues certificates that servers also demand of their clients.
    pub fn demanded() -> Self {
        Self {
            are_demanded: true,
            ..Self::issue()
        }
    }

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

        // With the authority's name it would look self-signed.
        let (certificate, key) = sign(&issuer, "redis-server");
        Self {
            authority: authority_certificate.pem(),
            certificate: certificate.pem(),
            key: key.serialize_pem(),
            are_demanded: false,
            issuer,
        }
    }

    /// Issues a certificate for a client of that name. Returns it with its key.
    pub fn of_client(&self, name: &str) -> (String, String) {
        let (certificate, key) = sign(&self.issuer, name);
        (certificate.pem(), key.serialize_pem())
    }
}

fn sign(issuer: &Issuer<'static, KeyPair>, name: &str) -> (Certificate, KeyPair) {
    let key = KeyPair::generate().unwrap();
    let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
    let mut params = CertificateParams::new(names).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    let certificate = params.signed_by(&key, issuer).unwrap();
    (certificate, key)
}
