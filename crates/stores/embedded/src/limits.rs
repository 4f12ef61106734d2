//! Length limits on the values of callers, checked before anything is decided.

use bytes::Bytes;
use semel_core::{Audited, Key, Note, Outcome, Parked, Result};

use crate::error;
use crate::options::Options;

pub(crate) fn check_note(note: &Note) -> Result<()> {
    check_len(note.by.len(), "name of who orders it")?;
    check_len(note.reason.len(), "reason of the order")
}

pub(crate) fn check_outcome(outcome: &Outcome, options: &Options) -> Result<()> {
    let cap = options.max_outcome_bytes.min(MAX_TAIL);
    match outcome {
        Outcome::Kept { bytes, .. } if bytes.len() > cap => {
            Err(error::too_large("outcome", bytes.len(), cap))
        }
        Outcome::Kept { .. } | Outcome::TooLarge { .. } => Ok(()),
    }
}

/// Checks that everything about a message is short enough to be kept.
pub(crate) fn check_parked(message: &Parked, options: &Options) -> Result<()> {
    let cap = options.max_payload_bytes.min(MAX_TAIL);
    if message.payload.len() > cap {
        return Err(error::too_large("payload", message.payload.len(), cap));
    }
    message
        .key
        .as_ref()
        .map_or(Ok(()), |key| check_key(key, "key"))?;
    check_transport(message.transport.as_ref())?;
    check_len(message.detail.len(), "detail")?;
    check_len(message.reason.len(), "reason")?;
    check_len(message.coordinates.len(), "coordinates")
}

/// Checks that everything about an entry of the audit trail is short enough.
pub(crate) fn check_audited(audited: &Audited) -> Result<()> {
    let Audited {
        note,
        action,
        key,
        before,
        after,
        ..
    } = audited;
    check_note(note)?;
    key.as_ref().map_or(Ok(()), |key| check_key(key, "key"))?;
    [action, before, after]
        .into_iter()
        .try_for_each(|text| check_len(text.len(), "entry of the audit trail"))
}

pub(crate) fn check_transport(transport: Option<&Bytes>) -> Result<()> {
    check_len(transport.map_or(0, Bytes::len), "transport id")
}

pub(crate) fn check_key(key: &Key, what: &str) -> Result<()> {
    check_len(key.as_bytes().len(), what)
}

pub(crate) fn check_len(len: usize, what: &str) -> Result<()> {
    if len > MAX_FIELD {
        Err(error::too_large(what, len, MAX_FIELD))
    } else {
        Ok(())
    }
}

/// The longest key, transport id, error, name.
const MAX_FIELD: usize = 1 << 16;
/// The longest tail that any option allows, so that a frame and a segment stay addressable.
pub(crate) const MAX_TAIL: usize = 1 << 28;
