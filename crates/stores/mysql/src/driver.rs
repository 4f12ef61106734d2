//! The inbox on a connection of another driver: the statements it runs, and their answers.
//!
//! An adapter passes statements on and bytes back. Their text and meaning stay in this crate.

use std::error::Error as StdError;
use std::fmt;
use std::future::Future;

use bytes::Bytes;

/// A connection within a transaction that its user has begun and will commit.
pub trait Driver: Send {
    /// Sends statements in one query of the text protocol, as they are, and reads all that comes back:
    /// the rows of each statement, none for one that returns none. The server stops at the first
    /// statement that fails.
    ///
    /// # Errors
    /// The server refused a statement, or the connection broke.
    ///
    /// # Cancel safety
    /// None is needed: a caller that drops the call rolls back.
    fn query(
        &mut self,
        script: &str,
    ) -> impl Future<Output = Result<Vec<Vec<Row>>, Refused>> + Send;
}

/// A row of an answer.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its columns, in their order and as the text protocol has them; `None` is null.
    pub columns: Vec<Option<Bytes>>,
}

/// Reason why statements did not run.
#[derive(Debug)]
pub enum Refused {
    /// The server refused.
    Answered {
        /// Its error number.
        code: u16,
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
            Self::Answered { code, message, .. } => write!(f, "{message} ({code})"),
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
