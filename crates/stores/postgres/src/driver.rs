//! The inbox on a connection of another driver: the statements it runs, and their answers.
//!
//! An adapter passes statements on and bytes back. Their text and meaning stay in this crate.

use std::error::Error as StdError;
use std::fmt;
use std::future::Future;

use bytes::Bytes;

/// A connection within a transaction that its user has begun and will commit.
pub trait Driver: Send {
    /// Runs one statement; parameters and columns are in PostgreSQL's binary format.
    ///
    /// # Errors
    /// The server refused the statement, or the connection broke.
    ///
    /// # Cancel safety
    /// None is needed: a caller that drops the call rolls back.
    fn query(
        &mut self,
        sql: &str,
        parameters: Vec<Parameter>,
    ) -> impl Future<Output = Result<Vec<Row>, Refused>> + Send;

    /// Runs statements without parameters or rows: savepoints.
    ///
    /// # Errors
    /// As [`Driver::query`].
    fn execute(&mut self, sql: &str) -> impl Future<Output = Result<(), Refused>> + Send;
}

/// A parameter of a statement.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// The number of its type in the server's catalogue.
    pub oid: u32,
    /// Its bytes; `None` is null.
    pub value: Option<Bytes>,
}

/// A row of an answer.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its columns, in their order.
    pub columns: Vec<Parameter>,
}

/// Reason why a statement did not run.
#[derive(Debug)]
pub enum Refused {
    /// The server refused it.
    Answered {
        /// Its `SQLSTATE`.
        state: Box<str>,
        /// The server's message.
        message: Box<str>,
        /// The driver's own error.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The connection broke, or its bytes made no sense.
    Broken(Box<dyn StdError + Send + Sync>),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answered { state, message, .. } => write!(f, "{message} ({state})"),
            Self::Broken(_) => f.write_str("the connection broke"),
        }
    }
}

impl StdError for Refused {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Answered { source, .. } | Self::Broken(source) => Some(&**source),
        }
    }
}
