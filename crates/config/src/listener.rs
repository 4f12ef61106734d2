//! The addresses of listeners, the names that they are called by, and their certificates.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::fields::Fields;

/// A certificate and its key, and the authority of those of clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The PEM file with the certificate, and those between it and the root.
    pub cert: PathBuf,
    /// The PEM file with its private key.
    pub key: PathBuf,
    /// The PEM file with the authorities that vouch for clients, which are asked for a certificate then.
    pub client_ca: Option<PathBuf>,
}

/// Reads the certificate; nothing if it cannot be read, and none if there is none.
#[expect(clippy::option_option, reason = "a faulty one is no absent one")]
pub(super) fn tls(table: &mut Fields<'_>) -> Option<Option<Certificate>> {
    let mut tls = table.optional_sub("tls")?;
    let (cert, key, client_ca) = (tls.path("cert"), tls.path("key"), tls.path("client_ca"));
    match (&cert, &key, &client_ca) {
        (Some(_), None, _) => tls.missing("key"),
        (None, Some(_), _) | (None, None, Some(_)) => tls.missing("cert"),
        (Some(_), Some(_), _) | (None, None, None) => {}
    }
    tls.finish();
    Some(cert.zip(key).map(|(cert, key)| Certificate {
        cert,
        key,
        client_ca,
    }))
}

/// Tells whether two listeners cannot have these addresses at once.
pub(super) fn meet(one: SocketAddr, other: SocketAddr) -> bool {
    let takes_all = |it: SocketAddr| it.ip().is_unspecified();
    one.port() != 0
        && one.port() == other.port()
        && (one.ip() == other.ip() || takes_all(one) || takes_all(other))
}

/// Reads the name of a host.
///
/// # Errors
///
/// A text that is none.
pub(super) fn host(text: &str) -> Result<Box<str>, String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if text.is_empty() || !text.chars().all(is_name) {
        return Err(format!(
            "`{text}` is no name of a host; write it without scheme and port, as in `claims.internal`"
        ));
    }
    Ok(text.into())
}
