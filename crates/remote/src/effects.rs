//! The effects of requests, and the advice on an order of which nobody knows whether it was given.

use semel_core::{Error, ErrorKind};

/// The effects that a request may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effects {
    /// It changes nothing.
    None,
    /// It carries an order out.
    Some,
}

impl Effects {
    /// The failure of a request after which nobody knows more than these: it says so.
    pub(crate) fn failure(self, kind: ErrorKind, message: String) -> Error {
        match self {
            Self::None => Error::new(kind, message).not_applied(),
            Self::Some => Error::new(kind, message + IN_DOUBT).maybe_applied(),
        }
    }
}

/// The advice on an order of which nobody knows whether it was given.
pub(crate) const IN_DOUBT: &str = "; the order may have been given: look before you give it again, at /v1/audit (semel store audit), \
     and where messages are run again at /v1/runs";
