//! Meaning of the driver's and the server's errors.

use std::time::Duration;

use async_nats::jetstream;
use async_nats::jetstream::ErrorCode;
use async_nats::{ConnectError, ConnectErrorKind};
use semel_core::code::Code;
use semel_core::{Error, ErrorKind, connection};

/// Pause before the next try of a call that a broker could not serve.
const AGAIN: Duration = Duration::from_secs(1);

/// Error for a broker that cannot be reached or cannot answer now; nothing was applied.
pub(crate) fn away(code: Code, message: impl Into<Box<str>>) -> Error {
    Error::new(ErrorKind::Unavailable, message)
        .with_code(code)
        .not_applied()
        .retry_after(AGAIN)
}

/// Error for a setting that a person has to change, here or at the server.
pub(crate) fn wrong(message: impl Into<Box<str>>) -> Error {
    Error::new(ErrorKind::InvalidConfig, message)
}

/// Returns whether trying again cannot help.
pub(crate) fn is_for_good(error: &Error) -> bool {
    error.kind() != ErrorKind::Unavailable && error.kind() != ErrorKind::Timeout
}

pub(crate) fn connecting(code: Code, servers: &str, error: ConnectError) -> Error {
    if let Some(refusal) = semel_tls::refusal(&error) {
        let message = format!("{servers}: {}", refusal.words);
        let made = if refusal.can_pass {
            away(code, message)
        } else {
            wrong(message)
        };
        return made.with_source(error);
    }
    match error.kind() {
        ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication => {
            wrong(format!(
                "{servers} refuses the credentials; check user and password, token or credentials file"
            ))
        }
        ConnectErrorKind::ServerParse => wrong(format!("{servers} is no address of a NATS server")),
        ConnectErrorKind::Tls => wrong(format!(
            "the certificates for {servers} cannot be used; check the CA file"
        ))
        .with_source(error),
        ConnectErrorKind::Dns
        | ConnectErrorKind::TimedOut
        | ConnectErrorKind::Io
        | ConnectErrorKind::MaxReconnects => {
            let why = connection::cause(&error).unwrap_or(match error.kind() {
                ConnectErrorKind::Dns => "the name does not resolve".into(),
                ConnectErrorKind::TimedOut => "no answer in time".into(),
                _ => "no connection came about".into(),
            });
            away(code, format!("NATS cannot be reached at {servers}: {why}")).with_source(error)
        }
    }
}

/// Returns the error for the JetStream API's answer to `attempt`.
pub(crate) fn answered(code: Code, attempt: &str, error: jetstream::Error) -> Error {
    let refused = match error.error_code() {
        ErrorCode::JETSTREAM_NOT_ENABLED | ErrorCode::JETSTREAM_NOT_ENABLED_FOR_ACCOUNT => true,
        // 400: the request makes no sense to the server; 503 and 500: it cannot serve it now.
        _ => error.code() == 400,
    };
    let message = format!("cannot {attempt}");
    if refused {
        wrong(message).with_source(error)
    } else {
        away(code, message).with_source(error)
    }
}

/// Returns the server's words for a right that it refused, as one line.
pub(crate) fn right_missing(said: &str) -> Error {
    let said = said.trim().trim_matches('\'').to_lowercase();
    wrong(format!(
        "the user lacks a right on the server ({said}); grant it"
    ))
}
