//! The certificates of the zoo: an authority that is created when the zoo opens, and what it signs,
//! rightly or wrongly. Nothing outlives the process except what the operator writes to a file, so
//! that no trusted key is left lying around.

use std::io;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// The defect of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Certificate {
    /// None: it is from the zoo's authority, for the requested host.
    Good,
    /// It ended in 2001.
    Expired,
    /// It begins in 2200.
    NotYetValid,
    /// It is for another host.
    WrongName,
    /// It is self-signed.
    SelfSigned,
    /// It is from an authority with the zoo's name but another key.
    Impostor,
}

/// The authority of one zoo.
#[derive(Debug)]
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    /// Creates one.
    ///
    /// # Errors
    /// If the cryptographic library refuses; a bug in spoor.
    pub fn new() -> io::Result<Self> {
        let mut params = CertificateParams::new(Vec::new()).map_err(io::Error::other)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(DnType::CommonName, "spoor zoo");
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let issuer = CertifiedIssuer::self_signed(params, key).map_err(io::Error::other)?;
        Ok(Self { issuer })
    }

    /// Its certificate, for `network.extra_ca`.
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// The TLS settings of a host that shows such a certificate.
    ///
    /// # Errors
    /// As [`Authority::new`].
    pub fn server(
        &self,
        host: &str,
        certificate: Certificate,
        http2: bool,
    ) -> io::Result<Arc<ServerConfig>> {
        let name = match certificate {
            Certificate::WrongName => "somebody-else.test",
            _ => host,
        };
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let mut params = CertificateParams::new([name.to_owned()]).map_err(io::Error::other)?;
        match certificate {
            Certificate::Expired => {
                params.not_before = date_time_ymd(2000, 1, 1);
                params.not_after = date_time_ymd(2001, 1, 1);
            }
            Certificate::NotYetValid => params.not_before = date_time_ymd(2200, 1, 1),
            _ => {}
        }
        let signed = match certificate {
            Certificate::SelfSigned => params.self_signed(&key),
            Certificate::Impostor => params.signed_by(&key, &Self::new()?.issuer),
            _ => params.signed_by(&key, &self.issuer),
        };
        let signed = signed.map_err(io::Error::other)?.der().clone();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|builder| {
                builder
                    .with_no_client_auth()
                    .with_single_cert(vec![signed], key)
            })
            .map_err(io::Error::other)?;
        let protocol: &[u8] = if http2 { b"h2" } else { b"http/1.1" };
        config.alpn_protocols = vec![protocol.to_vec()];
        Ok(Arc::new(config))
    }
}
