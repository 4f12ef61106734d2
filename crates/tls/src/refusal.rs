//! Reason why no encrypted connection came about, and the remedy.

use std::error::Error as StdError;
use std::io;

use tokio_rustls::rustls::{AlertDescription as Alert, CertificateError as Bad, Error as Rustls};

/// Reason why one of both ends did not accept the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The fault and the remedy, about "it", the server.
    pub words: String,
    /// Set if it can end without a change of our settings: a certificate is renewed.
    pub can_pass: bool,
}

/// Returns the refusal that rustls reported, wherever it is among the sources of `error`; `None` where TLS was not the
/// matter.
#[must_use]
pub fn refusal(error: &(dyn StdError + 'static)) -> Option<Refusal> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(said) = error.downcast_ref::<Rustls>() {
            return Some(of(said));
        }
        if let Some(inner) = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref)
        {
            // The source of an `io::Error` is what lies below its inner error, not the inner error itself.
            if let Some(found) = refusal(inner) {
                return Some(found);
            }
        }
        next = error.source();
    }
    None
}

fn of(error: &Rustls) -> Refusal {
    let for_good = |words: &str| Refusal {
        words: words.to_owned(),
        can_pass: false,
    };
    match error {
        Rustls::InvalidCertificate(bad) => of_certificate(bad),
        Rustls::InvalidMessage(_) => for_good(
            "it does not speak TLS on this port; correct the port, or the scheme of the url",
        ),
        Rustls::AlertReceived(alert) => of_alert(*alert),
        Rustls::PeerIncompatible(_) => {
            for_good("it has no version of TLS that is safe; let it have TLS 1.2 or 1.3")
        }
        other => for_good(&format!("no encrypted connection came about ({other})")),
    }
}

fn of_certificate(bad: &Bad) -> Refusal {
    let (words, can_pass) = match bad {
        // If an authority was created anew under the same name, its signature does not fit.
        Bad::UnknownIssuer | Bad::BadSignature => (
            "its certificate is of an authority that is not trusted here; name the authority's file in `tls.ca`",
            false,
        ),
        Bad::Expired | Bad::ExpiredContext { .. } => (
            "the time of its certificate is over; renew it on the server, or correct the clock here",
            true,
        ),
        Bad::NotValidYet | Bad::NotValidYetContext { .. } => (
            "its certificate is not valid yet; correct the clock here, or the certificate",
            true,
        ),
        Bad::NotValidForName | Bad::NotValidForNameContext { .. } => (
            "its certificate is for another name; correct the host in the url, or set `tls.server_name`",
            false,
        ),
        Bad::Revoked => ("its certificate was revoked; renew it on the server", true),
        other => {
            let words = format!("its certificate is not accepted ({other})");
            return Refusal {
                words,
                can_pass: false,
            };
        }
    };
    Refusal {
        words: words.to_owned(),
        can_pass,
    }
}

fn of_alert(alert: Alert) -> Refusal {
    let words = match alert {
        Alert::CertificateRequired => {
            "it wants to see a certificate of ours; set `tls.cert` and `tls.key`".to_owned()
        }
        Alert::CertificateExpired => {
            "it says that the time of our certificate is over; renew `tls.cert`".to_owned()
        }
        Alert::BadCertificate
        | Alert::UnsupportedCertificate
        | Alert::CertificateRevoked
        | Alert::CertificateUnknown
        | Alert::UnknownCA
        | Alert::AccessDenied => {
            format!("it does not accept our certificate ({alert:?}); correct `tls.cert`")
        }
        Alert::HandshakeFailure => {
            "it ended the handshake; it may want to see a certificate of ours (`tls.cert` and `tls.key`)"
                .to_owned()
        }
        Alert::ProtocolVersion | Alert::InsufficientSecurity => {
            "it has no version of TLS that is safe; let it have TLS 1.2 or 1.3".to_owned()
        }
        other => format!("it ended the encrypted connection ({other:?})"),
    };
    Refusal {
        words,
        can_pass: false,
    }
}
