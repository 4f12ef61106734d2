//! Encrypted connections to brokers and upstreams: the trusted authority, our certificate, the server's name, and the
//! meaning of a failed handshake; and the certificate of a listener of ours.
//!
//! Over rustls on ring. Every certificate is checked; nothing here turns that off.
//!
//! ```
//! use semel_tls::Tls;
//!
//! let tls = Tls { ca: Some("/nowhere/ca.pem".into()), ..Tls::default() };
//! let error = tls.config().expect_err("no such file");
//! assert!(error.to_string().contains("/nowhere/ca.pem"));
//! ```

mod named;
mod refusal;
mod server;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use semel_core::{Error, ErrorKind, Result};
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::named::Named;
pub use crate::refusal::{Refusal, refusal};
pub use crate::server::Identity;

/// Encryption settings of a connection. Files are read anew for every connection, so that a renewed one is used without
/// a restart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// Authorities to trust, in PEM, instead of the system's.
    pub ca: Option<PathBuf>,
    /// Our certificate with the chain to its authority, in PEM, where the server asks for one.
    pub cert: Option<PathBuf>,
    /// The private key of our certificate, in PEM.
    pub key: Option<PathBuf>,
    /// Name that the server's certificate must be for, where that is not the host of the url.
    pub server_name: Option<Box<str>>,
}

impl Tls {
    /// Returns whether it asks for nothing beyond the usual.
    #[must_use]
    pub fn is_usual(&self) -> bool {
        *self == Self::default()
    }

    /// Checks that the settings agree with each other; reads no file.
    ///
    /// # Errors
    /// `InvalidConfig`: a certificate without its key or the other way round, or a name that is none
    pub fn check(&self) -> Result<()> {
        if self.cert.is_some() != self.key.is_some() {
            return Err(wrong("`tls.cert` and `tls.key` go together; set both"));
        }
        self.name().map(drop)
    }

    /// Builds the configuration for rustls.
    ///
    /// # Errors
    /// `InvalidConfig`: as [`Tls::check`], or a file that is not there or of no use
    pub fn config(&self) -> Result<ClientConfig> {
        self.check()?;
        let provider = Arc::new(ring::default_provider());
        let roots = self.roots()?;
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| wrong("TLS cannot be set up").with_source(error))?;
        let builder = match self.name()? {
            None => builder.with_root_certificates(roots),
            Some(name) => {
                let inner = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
                    .build()
                    .map_err(|error| {
                        wrong("there is no authority to trust; set `tls.ca`").with_source(error)
                    })?;
                let named = Arc::new(Named { inner, name });
                builder.dangerous().with_custom_certificate_verifier(named)
            }
        };
        let (Some(cert), Some(key)) = (&self.cert, &self.key) else {
            return Ok(builder.with_no_client_auth());
        };
        let chain = certificates("tls.cert", cert)?;
        let secret = PrivateKeyDer::from_pem_file(key)
            .map_err(|error| unreadable("tls.key", key, "a private key").with_source(error))?;
        builder.with_client_auth_cert(chain, secret).map_err(|error| {
            let (cert, key) = (cert.display(), key.display());
            wrong(format!(
                "the key {key} is not that of the certificate {cert}, or of a kind that is not known"
            ))
            .with_source(error)
        })
    }

    fn roots(&self) -> Result<RootCertStore> {
        let mut roots = RootCertStore::empty();
        if let Some(path) = &self.ca {
            for certificate in certificates("tls.ca", path)? {
                roots.add(certificate).map_err(|error| {
                    unreadable("tls.ca", path, "certificates").with_source(error)
                })?;
            }
        } else {
            // Some of the system's may be of no use; a handshake says so where it matters.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
        Ok(roots)
    }

    fn name(&self) -> Result<Option<ServerName<'static>>> {
        let Some(name) = &self.server_name else {
            return Ok(None);
        };
        match ServerName::try_from(String::from(&**name)) {
            Ok(name) => Ok(Some(name)),
            Err(error) => {
                let message = format!("`tls.server_name` {name:?} is no name of a host");
                Err(wrong(message).with_source(error))
            }
        }
    }
}

fn certificates(setting: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let bad = || unreadable(setting, path, "certificates");
    let found = CertificateDer::pem_file_iter(path).map_err(|error| bad().with_source(error))?;
    let found = found.collect::<std::result::Result<Vec<_>, _>>();
    let found = found.map_err(|error| bad().with_source(error))?;
    if found.is_empty() {
        return Err(bad());
    }
    Ok(found)
}

fn unreadable(setting: &str, path: &Path, what: &str) -> Error {
    wrong(format!(
        "`{setting}` {} cannot be read as {what} in PEM",
        path.display()
    ))
}

fn wrong(message: impl Into<Box<str>>) -> Error {
    Error::new(ErrorKind::InvalidConfig, message)
}

#[cfg(test)]
mod tests;
