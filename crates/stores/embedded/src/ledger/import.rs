//! Adds what another store held, unchanged.

use semel_core::port::store::Listed;
use semel_core::{EntityRecord, FencingToken, Key, Mark, Record, Result, Scope, State, Timestamp};

use super::{EntityState, Finished, Kept, Ledger, Stored, Versioned, shared_digest};
use crate::digest::{Address, Addresses};
use crate::entry::{self, Kind};
use crate::import::FinishedRecord;

impl Ledger {
    /// The last fencing token given out.
    pub(crate) const fn token(&self) -> FencingToken {
        FencingToken::new(self.token)
    }

    /// Gives out tokens beyond this one from here on.
    pub(crate) const fn go_on_from(&mut self, token: FencingToken) {
        self.token = token.get();
    }

    /// Adds a finished record; returns whether it is new. A record that would count as absent is
    /// left out.
    pub(crate) fn import_finished(
        &mut self,
        new: &FinishedRecord,
        addresses: &Addresses,
        now: Timestamp,
    ) -> Result<bool> {
        let address = addresses.get(new.number);
        let Some(end) = self.ends.of(new.state, false) else {
            return Ok(false);
        };
        if end.forgotten_at <= now || !self.is_free(address, now)? {
            return Ok(false);
        }
        let Stored { location, .. } = self.append(Kind::Record, |buffer| {
            buffer.extend_from_slice(addresses.bytes(new.meta.clone()));
            addresses.bytes(new.tail.clone())
        });
        let is_dead = matches!(new.state, State::Dead { .. });
        self.put_finished(address.digest, Finished { location, is_dead });
        self.note_window(location.segment, end);
        Ok(true)
    }

    /// Adds a record that is unresolved or held; returns whether it is new. Its lease goes on even
    /// over a reopening: no lock proves that its holder is gone.
    pub(crate) fn import_kept(
        &mut self,
        listed: &Listed,
        address: Address<'_>,
        now: Timestamp,
    ) -> Result<bool> {
        if !self.is_free(address, now)? {
            return Ok(false);
        }
        let Listed { operation, record } = listed;
        let stored = self.append_record(address.identity, record, true);
        let own = Record {
            outcome: None,
            ..record.clone()
        };
        let kept = Kept {
            operation: operation.detached(),
            has_outcome: record.outcome.is_some(),
            has_foreign_lease: true,
            record: own.detached(),
            stored: Some(stored),
        };
        self.put_kept(address.digest, Some(Box::new(kept)));
        Ok(true)
    }

    /// Adds the record of an entity; returns whether it is new.
    pub(crate) fn import_entity(
        &mut self,
        scope: Scope,
        entity: Key,
        record: EntityRecord,
    ) -> bool {
        let key = (scope, entity);
        if self.entities.contains_key(&key) {
            return false;
        }
        let stored = self.append(Kind::Entity, |buffer| {
            entry::put_entity(buffer, &key.0, &key.1, &record, true);
            &[]
        });
        let value = EntityState {
            record,
            has_foreign_lease: true,
        };
        let stored = Some(stored);
        self.put_entity(key, Some(Versioned { value, stored }));
        true
    }

    /// Adds a mark; returns whether it is new.
    pub(crate) fn import_mark(&mut self, mark: &Mark) -> bool {
        let is_new = !self.marks.contains_key(&mark.name);
        if is_new {
            self.set_mark(mark);
        }
        is_new
    }

    /// Returns whether nothing is there of an operation, after a record that counts as absent has
    /// been removed.
    fn is_free(&mut self, address: Address<'_>, now: Timestamp) -> Result<bool> {
        if let Some(kept) = self.kept.get(address.digest) {
            return if address.identity.is_of(&kept.operation) {
                Ok(false)
            } else {
                Err(shared_digest())
            };
        }
        match self.finished(address, false)? {
            None => Ok(true),
            Some((record, finished)) if record.is_forgotten(now) => {
                self.displace(address.digest, finished);
                Ok(true)
            }
            Some(_) => Ok(false),
        }
    }
}
