use std::error::Error as StdError;
use std::io;

use semel_conformance::certificates::Authority;
use tokio_rustls::rustls::{AlertDescription, CertificateError, Error as Rustls};

use super::*;

fn refused(tls: &Tls) -> String {
    let error = tls.config().expect_err("of no use");
    assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error:?}");
    format!("{error} {error:?}")
}

#[test]
fn files_of_no_use_are_named_and_not_shown() {
    let authority = Authority::new();
    let (one, other) = (authority.issue("one", &[]), authority.issue("other", &[]));
    let with = |cert: &Path, key: &Path| Tls {
        ca: Some(authority.path.clone()),
        cert: Some(cert.to_owned()),
        key: Some(key.to_owned()),
        server_name: None,
    };
    assert!(with(&one.cert, &one.key).config().is_ok());
    let shown = refused(&with(&one.cert, &other.key));
    assert!(shown.contains("is not that of the certificate"), "{shown}");
    assert!(!shown.contains("PRIVATE"), "{shown}");
    for (tls, setting) in [
        (with(&one.key, &one.key), "tls.cert"),
        (with(&one.cert, &one.cert), "tls.key"),
        (with(Path::new("/nowhere"), &one.key), "tls.cert"),
        (with(&one.cert, Path::new("/nowhere")), "tls.key"),
    ] {
        let shown = refused(&tls);
        assert!(shown.contains(setting), "{setting}: {shown}");
    }
    let ca = Some(one.key.clone());
    assert!(
        refused(&Tls {
            ca,
            ..Tls::default()
        })
        .contains("tls.ca")
    );
}

#[test]
fn a_certificate_without_its_key_is_refused_and_a_name_that_is_none() {
    let cert = Some("cert.pem".into());
    let alone = Tls {
        cert,
        ..Tls::default()
    };
    assert!(alone.check().is_err() && !alone.is_usual());
    let server_name = Some("not a name".into());
    let named = Tls {
        server_name,
        ..Tls::default()
    };
    assert!(refused(&named).contains("tls.server_name"));
    assert!(Tls::default().check().is_ok() && Tls::default().is_usual());
}

/// Wraps an error as drivers do: somewhere below.
fn deep(error: Rustls) -> Box<dyn StdError> {
    Box::new(io::Error::other(io::Error::new(
        io::ErrorKind::InvalidData,
        error,
    )))
}

#[test]
fn what_rustls_says_is_found_and_told_with_what_to_do() {
    let bad = |bad| deep(Rustls::InvalidCertificate(bad));
    let alert = |alert| deep(Rustls::AlertReceived(alert));
    for (error, words, can_pass) in [
        (bad(CertificateError::UnknownIssuer), "`tls.ca`", false),
        (bad(CertificateError::Expired), "renew it", true),
        (bad(CertificateError::NotValidYet), "clock", true),
        (
            bad(CertificateError::NotValidForName),
            "`tls.server_name`",
            false,
        ),
        (
            alert(AlertDescription::CertificateRequired),
            "set `tls.cert`",
            false,
        ),
        (
            alert(AlertDescription::UnknownCA),
            "does not accept our",
            false,
        ),
    ] {
        let found = refusal(&*error).expect("it is there");
        assert!(found.words.contains(words), "{found:?}");
        assert_eq!(found.can_pass, can_pass, "{found:?}");
    }
    assert_eq!(refusal(&io::Error::from(io::ErrorKind::BrokenPipe)), None);
}
