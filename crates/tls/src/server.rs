//! The server side of TLS.

use std::path::PathBuf;
use std::sync::Arc;

use semel_core::Result;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

use crate::{certificates, unreadable, wrong};

/// The certificate of a listener, which is read once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The certificate with the chain to its authority, in PEM.
    pub cert: PathBuf,
    /// The private key of the certificate, in PEM.
    pub key: PathBuf,
    /// The authorities, in PEM, that vouch for clients, which are asked for a certificate then. One that shows none is
    /// let in all the same; one whose certificate is of no use is not. Without it, nobody is asked.
    pub client_ca: Option<PathBuf>,
}

impl Identity {
    /// Builds the configuration for rustls.
    ///
    /// # Errors
    /// `InvalidConfig`: a file that is not there or of no use, or a key of another certificate
    pub fn config(&self) -> Result<ServerConfig> {
        let chain = certificates("tls.cert", &self.cert)?;
        let secret = PrivateKeyDer::from_pem_file(&self.key).map_err(|error| {
            unreadable("tls.key", &self.key, "a private key").with_source(error)
        })?;
        let provider = Arc::new(ring::default_provider());
        let clients = self.clients(&provider)?;
        let builder = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| wrong("TLS cannot be set up").with_source(error))?;
        let builder = match clients {
            Some(clients) => builder.with_client_cert_verifier(clients),
            None => builder.with_no_client_auth(),
        };
        builder.with_single_cert(chain, secret).map_err(|error| {
            let (cert, key) = (self.cert.display(), self.key.display());
            wrong(format!(
                "the key {key} is not that of the certificate {cert}, or of a kind that is not known"
            ))
            .with_source(error)
        })
    }

    /// The check of the certificates that clients show, if they are asked for one.
    fn clients(
        &self,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Option<Arc<dyn ClientCertVerifier>>> {
        let Some(path) = &self.client_ca else {
            return Ok(None);
        };
        let bad = || unreadable("tls.client_ca", path, "certificates of authorities");
        let mut roots = RootCertStore::empty();
        for certificate in certificates("tls.client_ca", path)? {
            roots
                .add(certificate)
                .map_err(|error| bad().with_source(error))?;
        }
        let clients =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
                .allow_unauthenticated()
                .build()
                .map_err(|error| bad().with_source(error))?;
        Ok(Some(clients))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use semel_conformance::certificates::Authority;
    use semel_core::ErrorKind;

    use super::*;

    #[test]
    fn a_certificate_goes_with_its_key() {
        let authority = Authority::new();
        let (one, other) = (authority.issue("one", &[]), authority.issue("other", &[]));
        let with = |cert: &Path, key: &Path| Identity {
            cert: cert.to_owned(),
            key: key.to_owned(),
            client_ca: None,
        };
        let asking = |client_ca: &Path| Identity {
            client_ca: Some(client_ca.to_owned()),
            ..with(&one.cert, &one.key)
        };
        assert!(with(&one.cert, &one.key).config().is_ok());
        assert!(asking(&authority.path).config().is_ok());
        for (identity, said) in [
            (with(&one.cert, &other.key), "is not that of"),
            (with(&one.key, &one.key), "tls.cert"),
            (with(&one.cert, &one.cert), "tls.key"),
            (with(Path::new("/nowhere"), &one.key), "tls.cert"),
            (asking(&one.key), "tls.client_ca"),
            (asking(Path::new("/nowhere")), "tls.client_ca"),
        ] {
            let error = identity.config().expect_err("of no use");
            assert_eq!(error.kind(), ErrorKind::InvalidConfig);
            let shown = format!("{error} {error:?}");
            assert!(
                shown.contains(said) && !shown.contains("PRIVATE"),
                "{shown}"
            );
        }
    }
}
