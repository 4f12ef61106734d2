//! Entries of the audit trail, written in the transaction of their orders.

use rusqlite::params;
use semel_core::{Audited, Key, Result};

use super::Ledger;
use crate::error::undone;
use crate::{row, sql};

impl Ledger<'_> {
    /// Adds the entry of an order that is carried out within this transaction. AUD-1.
    pub(crate) fn add_audited(&mut self, entry: &Audited) -> Result<()> {
        self.put_audited(entry, sql::AUDIT_ADD).map(drop)
    }

    /// Adds an entry of another store, unless an equal one is there; returns whether it is new.
    pub(crate) fn import_audited(&mut self, entry: &Audited) -> Result<bool> {
        if self.put_audited(entry, sql::AUDIT_FIND)? {
            return Ok(false);
        }
        self.add_audited(entry)?;
        Ok(true)
    }

    /// Runs a statement with the fields of an entry; returns whether it found or changed anything.
    fn put_audited(&mut self, entry: &Audited, text: &str) -> Result<bool> {
        let scope = match &entry.scope {
            Some(scope) => Some(self.scope(scope)?),
            None => None,
        };
        let mut statement = self.connection.prepare_cached(text).map_err(undone)?;
        let fields = params![
            row::millis(entry.at),
            entry.note.by,
            entry.note.reason,
            entry.action,
            scope,
            entry.key.as_ref().map(Key::as_str),
            entry.before,
            entry.after,
        ];
        if statement.column_count() > 0 {
            return statement.exists(fields).map_err(undone);
        }
        statement
            .execute(fields)
            .map(|rows| rows > 0)
            .map_err(undone)
    }
}
