//! The addresses of listeners, the names that they are called by, and their certificates.

use std::net::SocketAddr;
use std::path::PathBuf;

use semel_broker_webhook::Entrance;

use super::fields::Fields;
use super::tls;

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

/// The place that a source listens at.
#[derive(Clone, Copy, Debug)]
pub struct Door<'s> {
    /// The listener.
    pub entrance: Entrance,
    /// The path.
    pub path: &'s str,
    /// The certificate, if it encrypts.
    pub tls: Option<&'s Certificate>,
    /// True if it may be at the listener of the gateway or of the admin API.
    pub can_borrow: bool,
}

/// Reads the certificate; nothing if it cannot be read, and none if there is none.
#[expect(clippy::option_option, reason = "a faulty one is no absent one")]
pub(super) fn tls(table: &mut Fields<'_>) -> Option<Option<Certificate>> {
    let mut tls = tls::table(table, WANTED)?;
    let client_ca = tls.path("client_ca");
    let read = certificate(&mut tls, client_ca);
    tls.finish();
    Some(read)
}

/// Reads the certificate of a listener that asks clients for none; `why` says how it knows them.
#[expect(clippy::option_option, reason = "a faulty one is no absent one")]
pub(super) fn tls_alone(table: &mut Fields<'_>, why: &str) -> Option<Option<Certificate>> {
    let mut tls = tls::table(table, WANTED)?;
    tls.reject("client_ca", why);
    let read = certificate(&mut tls, None);
    tls.finish();
    Some(read)
}

fn certificate(tls: &mut Fields<'_>, client_ca: Option<PathBuf>) -> Option<Certificate> {
    let (cert, key) = (tls.path("cert"), tls.path("key"));
    match (&cert, &key, &client_ca) {
        (Some(_), None, _) => tls.missing("key"),
        (None, Some(_), _) | (None, None, Some(_)) => tls.missing("cert"),
        (Some(_), Some(_), _) | (None, None, None) => {}
    }
    cert.zip(key).map(|(cert, key)| Certificate {
        cert,
        key,
        client_ca,
    })
}

/// The settings of a certificate.
const WANTED: &str = "`cert` and `key`";

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
