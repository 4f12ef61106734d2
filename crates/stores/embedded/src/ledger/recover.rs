//! Reading the ledger back from its log.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use semel_core::{Error, Record, Result, State, Timestamp};

use super::by_digest::ByDigest;
use super::compaction::Upkeep;
use super::end::Ends;
use super::readahead::Readahead;
use super::{EntityState, Finished, Kept, Ledger, Stored, Versioned, shared_digest};
use crate::audit_index::{AuditIndex, Met, Orders, Spot};
use crate::digest::{Address, Digest, KeyedHash};
use crate::entry::{AuditedBody, EntityBody, Identity, Kind, MarkBody, RecordBody, Scopes};
use crate::error;
use crate::files::Files;
use crate::log::{Location, Log, LogKind, Recover, Replayed};
use crate::options::Options;
use crate::superblock::{Superblock, token_of};
use crate::table::Table;

impl Ledger {
    /// Opens the log and rebuilds the state in memory from it. The exclusive lock proves that every process that held a
    /// lease here is gone, so every such lease is over now.
    pub(crate) fn open(
        files: Arc<dyn Files>,
        superblock: &Superblock,
        options: &Options,
        orders: &Orders,
        now: Timestamp,
    ) -> Result<Self> {
        let ledger = Self {
            log: Log::unread(files, LogKind::RECORDS, superblock.store_id),
            keyed_hash: KeyedHash::new(&superblock.hash_key),
            options: options.clone(),
            table: Table::new(),
            kept: ByDigest::default(),
            entities: BTreeMap::new(),
            marks: BTreeMap::new(),
            audit_index: AuditIndex::default(),
            orders: orders.clone(),
            undo: Vec::new(),
            token: 0,
            scratch: Vec::new(),
            readahead: Readahead::default(),
            scopes: Scopes::default(),
            spare: None,
            upkeep: Upkeep::default(),
            ends: Ends::default(),
        };
        let mut replay = Replay {
            ledger,
            open: HashMap::new(),
            met: Vec::new(),
        };
        replay.recover(superblock.records, now)?;
        let mut ledger = replay.done()?;
        let kept = ledger.kept.values_mut();
        for kept in kept.filter(|kept| !kept.has_foreign_lease) {
            end_lease(&mut kept.record, now);
        }
        let entities = ledger.entities.values_mut().map(|entity| &mut entity.value);
        for entity in entities.filter(|entity| !entity.has_foreign_lease) {
            let holder = &mut entity.record.holder;
            *holder = holder.map(|(id, until)| (id, now.min(until)));
        }
        Ok(ledger)
    }

    /// Gives out tokens of `epoch` from here on: greater than all before, whatever became of those.
    pub(crate) fn begin_epoch(&mut self, epoch: u64) {
        self.token = token_of(epoch);
    }
}

/// A ledger that is being read back.
struct Replay {
    ledger: Ledger,
    /// Records that are unresolved or held so far. Most of them are followed by a later version, so they stay as read
    /// until the end.
    open: HashMap<Digest, Open>,
    /// Entries of the audit trail.
    met: Vec<Met>,
}

/// A record that is unresolved or held, as far as the log has been read.
struct Open {
    stored: Stored,
    meta: Box<[u8]>,
    /// Length of its identity within the meta part.
    identity_len: usize,
}

impl Replay {
    fn done(self) -> Result<Ledger> {
        let Self {
            mut ledger,
            open,
            met,
        } = self;
        for (digest, Open { stored, meta, .. }) in open {
            let kept = Kept::read(stored, &meta, &mut ledger.scopes);
            let kept = kept.ok_or_else(|| contents(&ledger.log, stored.location))?;
            ledger.put_kept(digest, Some(Box::new(kept)));
        }
        let (audit_index, older) = AuditIndex::of(met);
        ledger.audit_index = audit_index;
        for (Spot { location, .. }, len) in older {
            ledger.exchange_stored(Some(Stored { location, len }), None);
        }
        ledger.undo.clear();
        Ok(ledger)
    }

    fn replay_one(&mut self, entry: &Replayed<'_>) -> Result<()> {
        let Replayed {
            kind,
            location,
            len,
            meta,
            digest,
        } = *entry;
        let stored = Stored { location, len };
        let ledger = &mut self.ledger;
        match kind {
            Kind::Record => self.replay_record(stored, meta, digest)?,
            Kind::Removed => self.forget(digest, Identity(meta))?,
            Kind::Entity => {
                let body =
                    EntityBody::decode(meta).ok_or_else(|| contents(&ledger.log, location))?;
                let value = EntityState {
                    record: body.record,
                    has_foreign_lease: body.has_foreign_lease,
                };
                let entity = Versioned {
                    value,
                    stored: Some(stored),
                };
                ledger.put_entity((body.scope, body.entity), Some(entity));
            }
            Kind::Mark => {
                let body = MarkBody::decode(meta).ok_or_else(|| contents(&ledger.log, location))?;
                let mark = Versioned {
                    value: body.value,
                    stored: Some(stored),
                };
                ledger.put_mark(body.name.into(), Some(mark));
            }
            Kind::Audited => {
                let order = AuditedBody::order_of(meta);
                let order = order.ok_or_else(|| contents(&ledger.log, location))?;
                ledger.orders.seen(order);
                ledger.exchange_stored(None, Some(stored));
                self.met.push((Spot { order, location }, len));
            }
            Kind::Padding | Kind::Segment | Kind::Parked | Kind::Dropped => {
                return Err(contents(&ledger.log, location));
            }
        }
        Ok(())
    }

    fn replay_record(&mut self, stored: Stored, meta: &[u8], digest: Digest) -> Result<()> {
        let location = stored.location;
        let body = RecordBody::new(meta);
        let body = body.ok_or_else(|| contents(&self.ledger.log, location))?;
        let state = body.state();
        let (state, is_held) = state.ok_or_else(|| contents(&self.ledger.log, location))?;
        let Some(end) = self.ledger.ends.of(state, is_held) else {
            self.forget(digest, body.identity)?;
            let open = Open {
                stored,
                meta: meta.into(),
                identity_len: body.identity.0.len(),
            };
            self.open.insert(digest, open);
            return Ok(());
        };
        let is_dead = matches!(state, State::Dead { .. });
        self.forget_open(digest, body.identity)?;
        let ledger = &mut self.ledger;
        if ledger.table.insert_first(digest.tag, location) {
            ledger.count_finished(Finished { location, is_dead }, true);
        } else {
            self.forget(digest, body.identity)?;
            self.ledger
                .put_finished(digest, Finished { location, is_dead });
        }
        self.ledger.note_window(location.segment, end);
        Ok(())
    }

    /// Forgets the version of a record that an entry replaces, where that one is open.
    #[inline]
    fn forget_open(&mut self, digest: Digest, identity: Identity<'_>) -> Result<()> {
        if self.open.is_empty() {
            return Ok(());
        }
        match self.open.remove(&digest) {
            Some(open) if open.meta[..open.identity_len] != *identity.0 => Err(shared_digest()),
            Some(_) | None => Ok(()),
        }
    }

    /// Forgets the version of a record that an entry replaces or removes.
    fn forget(&mut self, digest: Digest, identity: Identity<'_>) -> Result<()> {
        self.forget_open(digest, identity)?;
        if self.ledger.table.locations(digest.tag).next().is_none() {
            return Ok(());
        }
        let address = Address {
            digest,
            identity,
            number: Address::ALONE,
        };
        if let Some((_, finished)) = self.ledger.finished(address, false)? {
            self.ledger.displace(digest, finished);
        }
        Ok(())
    }
}

impl Recover for Replay {
    fn log(&mut self) -> &mut Log {
        &mut self.ledger.log
    }

    fn keyed_hash(&self) -> Option<KeyedHash> {
        Some(self.ledger.keyed_hash.clone())
    }

    fn replay(&mut self, entries: &[Replayed<'_>]) -> Result<()> {
        self.ledger
            .table
            .warm(entries.iter().map(|entry| entry.digest.tag));
        for entry in entries {
            self.replay_one(entry)?;
        }
        self.ledger.undo.clear();
        Ok(())
    }
}

impl Kept {
    /// Reads the record in an entry.
    fn read(stored: Stored, meta: &[u8], scopes: &mut Scopes) -> Option<Self> {
        let body = RecordBody::new(meta)?;
        Some(Self {
            operation: body.identity.operation(scopes)?,
            record: body.record(None)?,
            has_outcome: body.has_outcome(),
            has_foreign_lease: body.has_foreign_lease(),
            stored: Some(stored),
        })
    }
}

/// Error for an entry whose contents cannot be read, or do not belong here.
fn contents(log: &Log, location: Location) -> Error {
    let name = log.name_of(location.segment);
    error::corrupt(&name, u64::from(location.offset), "an entry's contents")
}

fn end_lease(record: &mut Record, now: Timestamp) {
    match &mut record.state {
        State::Claimed { lease_until } | State::Started { lease_until, .. } => {
            *lease_until = now.min(*lease_until);
        }
        State::Released { .. }
        | State::Completed { .. }
        | State::Dead { .. }
        | State::InDoubt { .. } => {}
    }
}
