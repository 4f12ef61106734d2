//! Parked messages: kept and dropped within a transaction.

use rusqlite::params;
use semel_core::parked::headers_to_bytes;
use semel_core::{Key, Note, Parked, ParkedId, Result, Timestamp};

use crate::error::undone;
use crate::ledger::Ledger;
use crate::{listing, row, sql};

/// Keeps a message as of `since`; returns whether it is new.
pub(crate) fn park(
    ledger: &mut Ledger<'_>,
    id: ParkedId,
    message: &Parked,
    since: Timestamp,
) -> Result<bool> {
    let headers = Some(headers_to_bytes(&message.headers)).filter(|headers| !headers.is_empty());
    let scope = ledger.scope(&message.scope)?;
    let mut add = ledger
        .connection
        .prepare_cached(sql::PARKED_ADD)
        .map_err(undone)?;
    let added = add.execute(params![
        id.to_bytes(),
        scope,
        message.key.as_ref().map(Key::as_str),
        message.reason,
        message.detail,
        message.transport.as_deref(),
        &*message.coordinates,
        row::millis(since),
        &message.payload[..],
        headers,
    ]);
    Ok(added.map_err(undone)? > 0)
}

/// Drops a message, and adds an audit entry where there is a note; returns whether it was there.
pub(crate) fn drop_parked(
    ledger: &mut Ledger<'_>,
    id: ParkedId,
    note: Option<&Note>,
) -> Result<bool> {
    if let Some(note) = note
        && let Some(message) = listing::parked_one(ledger.connection, id)?
    {
        ledger.add_audited(&message.dropped(note, ledger.now))?;
    }
    let mut drop = ledger
        .connection
        .prepare_cached(sql::PARKED_DROP)
        .map_err(undone)?;
    Ok(drop.execute([id.to_bytes()]).map_err(undone)? > 0)
}
