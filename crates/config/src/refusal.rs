//! The reason why a text does not fit a setting.

use std::convert::Infallible;
use std::fmt;

use semel_core::Code;
use semel_core::select::{InvalidSelector, Selector};

/// The reason why a text does not fit a setting: one line, without the text if that may be a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub(super) code: Code,
    pub(super) message: String,
}

impl Refusal {
    /// Refuses a value of the design that this release does not support.
    pub(super) fn unsupported(message: impl Into<String>) -> Self {
        Self {
            code: Code::Unsupported,
            message: message.into(),
        }
    }

    /// Refuses a file that would be both read and written.
    pub(super) fn same_file(message: impl Into<String>) -> Self {
        Self {
            code: Code::SameFile,
            message: message.into(),
        }
    }
}

impl From<String> for Refusal {
    fn from(message: String) -> Self {
        Self {
            code: Code::InvalidConfig,
            message,
        }
    }
}

impl From<Infallible> for Refusal {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

impl std::error::Error for Refusal {}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Reads a selector.
pub(super) fn selector(text: &str) -> Result<Selector, Refusal> {
    text.parse().map_err(|error: InvalidSelector| {
        if error == InvalidSelector::Cel {
            Refusal::unsupported(error.to_string())
        } else {
            error.to_string().into()
        }
    })
}
