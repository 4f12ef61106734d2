//! Inboxes over the drivers that the stores use: one operation in your own transaction. The inboxes
//! over sqlx are in [`crate::sqlx`].

#[cfg(feature = "mysql")]
pub(crate) mod mysql;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;

use std::error::Error as StdError;

use semel_core::{Error, ErrorKind};

/// The meaning of a driver's refusal of a savepoint.
pub(crate) fn no_savepoint(error: impl StdError + Send + Sync + 'static) -> Error {
    let message = "the transaction takes no savepoint; roll back and begin again";
    Error::new(ErrorKind::Unavailable, message)
        .not_applied()
        .with_source(error)
}
