//! Reason why a statement did not run, of our own driver or of a user's.

use deadpool_postgres::tokio_postgres;
use semel_core::Error;

use crate::driver::Refused;

/// Reason why a statement did not run, or why its answer cannot be read.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A failure of our own driver.
    Driver(tokio_postgres::Error),
    /// A failure of another driver.
    Refused(Refused),
    /// A value of another type than the statement has, over another driver.
    Unreadable(Box<str>),
}

impl Failure {
    /// Returns the `SQLSTATE` of the server's answer, and its words, if it is one.
    pub(crate) fn answer(&self) -> Option<(&str, &str)> {
        match self {
            Self::Driver(error) => {
                let db = error.as_db_error()?;
                Some((db.code().code(), db.message()))
            }
            Self::Refused(Refused::Answered { state, message, .. }) => Some((state, message)),
            Self::Refused(Refused::Broken(_)) | Self::Unreadable(_) => None,
        }
    }

    /// Returns `error` with this as its cause.
    pub(crate) fn because(self, error: Error) -> Error {
        match self {
            Self::Driver(cause) => error.with_source(cause),
            Self::Refused(cause) => error.with_source(cause),
            Self::Unreadable(_) => error,
        }
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Driver(error)
    }
}
