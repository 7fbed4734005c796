//! TLS to PostgreSQL, with the meaning that libpq gives to `sslmode` and `sslrootcert`.
//!
//! How it fails: [`Error`] of kind `Configuration` for a root certificate that cannot be read.
//! Invariants: `verify-full` checks the certificate and the host's name, `verify-ca` the
//! certificate alone; `prefer` and `require` encrypt and check nothing, as everywhere with
//! PostgreSQL, unless
//! `sslrootcert` is given, which makes `require` check the certificate.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error as TlsError, RootCertStore,
    SignatureScheme,
};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::ssl_mode::SslAsked;
use crate::{Error, ErrorKind};

/// The connector that a URL asks for.
pub(super) fn connector(asked: &SslAsked) -> Result<MakeRustlsConnect, Error> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("the ring provider supports the default protocol versions");
    let config = if asked.checks_host() {
        builder.with_root_certificates(roots(asked)?).with_no_client_auth()
    } else {
        let inner = match asked.checks_certificate() {
            true => Some(chain_verifier(asked, &provider)?),
            false => None,
        };
        builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Lenient { inner, provider }))
            .with_no_client_auth()
    };
    Ok(MakeRustlsConnect::new(config))
}

/// Whom to trust: the given file, or the authorities that browsers trust.
fn roots(asked: &SslAsked) -> Result<RootCertStore, Error> {
    let Some(path) = &asked.root else {
        return Ok(webpki_roots::TLS_SERVER_ROOTS.iter().cloned().collect());
    };
    let unreadable = |problem: String| {
        let message = format!("sslrootcert: `{path}` {problem}");
        Error::new(ErrorKind::Configuration, message)
            .with_field("sslrootcert")
            .with_hint("name a file of certificates in PEM form")
    };
    let mut store = RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(path)
        .map_err(|error| unreadable(format!("cannot be read: {error}")))?;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| unreadable(format!("is no PEM: {error}")))?;
        store
            .add(certificate)
            .map_err(|error| unreadable(format!("holds a bad certificate: {error}")))?;
    }
    if store.is_empty() {
        return Err(unreadable("holds no certificate".to_owned()));
    }
    Ok(store)
}

fn chain_verifier(
    asked: &SslAsked,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<WebPkiServerVerifier>, Error> {
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots(asked)?), Arc::clone(provider))
        .build()
        .map_err(|error| {
            Error::new(ErrorKind::Configuration, "sslrootcert cannot be used").with_source(error)
        })
}

/// Checks the certificate's chain or nothing, never the host's name.
#[derive(Debug)]
struct Lenient {
    inner: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        let Some(inner) = &self.inner else { return Ok(ServerCertVerified::assertion()) };
        match inner.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            Err(TlsError::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
