//! The reasons why a request is not genuine.

use std::fmt;
use std::time::Duration;

use axum::http::HeaderName;

/// The reason why a request is not genuine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It lacks a header.
    Missing(HeaderName),
    /// It has a header that cannot be a signature, or cannot be the time of one.
    Malformed(HeaderName, &'static str),
    /// No secret makes its signature.
    Wrong(HeaderName),
    /// It is signed, but at a time that is too far from now.
    Untimely {
        /// The distance of its time from now.
        off: Duration,
        /// The greatest distance that is accepted.
        tolerance: Duration,
        /// True if its time lies ahead.
        is_ahead: bool,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(header) => write!(f, "the request has no header {header}"),
            Self::Malformed(header, why) => write!(f, "the header {header} {why}"),
            Self::Wrong(header) => write!(
                f,
                "no secret makes the signature in {header}: another secret, or the body was changed on its way"
            ),
            Self::Untimely {
                off,
                tolerance,
                is_ahead,
            } => {
                let side = if *is_ahead { "ahead" } else { "ago" };
                write!(
                    f,
                    "the request was signed {} s {side}, and clocks may differ by {} s",
                    off.as_secs(),
                    tolerance.as_secs()
                )
            }
        }
    }
}

impl std::error::Error for Refusal {}
