//! A producer and one of its streams as a database reads them, and what that means for a call. Not for writing them.

use super::ledger::{Append, not_next, not_opened};
use super::{Batch, Incarnation, ProducerName, Standing};
use crate::error::{Error, ErrorKind, Result};

/// A producer and one of its streams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducerRow {
    /// The id.
    pub id: Box<str>,
    /// The epoch of the latest opening.
    pub epoch: u64,
    /// True if messages are kept and not published.
    pub is_frozen: bool,
    /// The stream, if anybody opened the producer for it.
    pub stream: Option<StreamRow>,
}

/// A stream of a producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamRow {
    /// The sequence of the next message.
    pub next: u64,
    /// The sequence up to which all messages are with the broker.
    pub confirmed: u64,
    /// The sequence up to which messages may be sent while the producer is frozen.
    pub released: u64,
}

impl StreamRow {
    /// The sequence of the last message; 0 where there is none.
    pub fn last(&self) -> u64 {
        self.next.saturating_sub(1)
    }

    /// The number of messages that are not confirmed.
    pub fn waiting(&self) -> u64 {
        self.last().saturating_sub(self.confirmed)
    }
}

impl ProducerRow {
    /// Returns the stream, for an incarnation that is the latest.
    ///
    /// # Errors
    /// `ClaimLost` with code `producer-fenced`; `InvalidInput`: nobody opened the producer for it
    pub fn stream_of(
        found: Option<&Self>,
        incarnation: &Incarnation,
        stream: &str,
    ) -> Result<(StreamRow, Standing)> {
        let Some(row) = found else {
            return Err(incarnation.fenced_by(0));
        };
        let is_latest = (&*row.id, row.epoch) == (&*incarnation.id, incarnation.epoch);
        if !is_latest {
            return Err(incarnation.fenced_by(row.epoch));
        }
        let found = row
            .stream
            .ok_or_else(|| not_opened(&incarnation.name, stream))?;
        let standing = Standing {
            confirmed: found.confirmed,
            limit: row.is_frozen.then_some(found.released),
        };
        Ok((found, standing))
    }

    /// Decides an append.
    ///
    /// # Errors
    /// As [`ProducerRow::stream_of`]; `Conflict`: the batch is not the next one
    pub fn check_append(
        found: Option<&Self>,
        incarnation: &Incarnation,
        stream: &str,
        batch: &Batch,
    ) -> Result<(Append, Standing)> {
        let (found, standing) = Self::stream_of(found, incarnation, stream)?;
        if batch.first == found.next {
            return Ok((Append::New, standing));
        }
        if batch.count > 0 && batch.end() == found.next {
            return Ok((Append::Known, standing));
        }
        Err(not_next(batch.first, found.next))
    }
}

/// Reads a name that a database has stored.
///
/// # Errors
/// `Corrupt`
pub fn stored_name(name: &str) -> Result<ProducerName> {
    name.parse().map_err(|_| damaged_name())
}

/// Reads the name of a producer that sends here, as a database has stored it.
///
/// # Errors
/// `Corrupt`
pub fn stored_sender(name: &str) -> Result<ProducerName> {
    ProducerName::of_sender(name).map_err(|_| damaged_name())
}

fn damaged_name() -> Error {
    let message = "the name of a producer in the store does not check out; go on under another name of a producer: a \
                   store that is restored has given out its sequences and ids before";
    Error::new(ErrorKind::Corrupt, message)
}
