//! Reading the ledger back from its log.

use std::collections::BTreeMap;
use std::sync::Arc;

use semel_core::{Record, Result, State, Timestamp};

use super::carry::Upkeep;
use super::end::Ends;
use super::{Finished, Kept, Ledger, Stored, Versioned, shared_place};
use crate::entry::{EntityBody, Identity, Kind, MarkBody, RecordBody};
use crate::error;
use crate::files::Files;
use crate::log::{Log, LogKind, Recover, Replayed};
use crate::options::Options;
use crate::place::{Address, Placing};
use crate::superblock::Superblock;
use crate::table::Table;

impl Ledger {
    /// Opens the log and rebuilds what memory holds of it. The exclusive lock proves that whoever
    /// held a lease here is gone, so every lease is over now.
    pub(crate) fn open(
        files: Arc<dyn Files>,
        superblock: &Superblock,
        options: &Options,
        now: Timestamp,
    ) -> Result<Self> {
        let mut ledger = Self {
            log: Log::unread(files, LogKind::RECORDS, superblock.store_id),
            placing: Placing::new(&superblock.hash_key),
            options: options.clone(),
            table: Table::new(),
            kept: BTreeMap::new(),
            entities: BTreeMap::new(),
            marks: BTreeMap::new(),
            undo: Vec::new(),
            token: 0,
            scratch: Vec::new(),
            upkeep: Upkeep::default(),
            ends: Ends::default(),
        };
        ledger.recover(superblock.records, now)?;
        for kept in ledger.kept.values_mut() {
            end_lease(&mut kept.record, now);
        }
        for entity in ledger.entities.values_mut() {
            entity.value.holder = entity.value.holder.map(|(id, until)| (id, now.min(until)));
        }
        Ok(ledger)
    }

    /// Gives out tokens of `epoch` from here on: greater than all before, whatever became of those.
    pub(crate) fn begin_epoch(&mut self, epoch: u64) {
        self.token = epoch << COUNTER_BITS;
    }

    fn replay_record(&mut self, stored: Stored, meta: &[u8]) -> Result<()> {
        let bad = || {
            let Stored { location, .. } = stored;
            let name = self.log.name_of(location.segment);
            error::corrupt(&name, u64::from(location.offset), "a record's contents")
        };
        let body = RecordBody::new(meta).ok_or_else(bad)?;
        let record = body.record(None).ok_or_else(bad)?;
        let address = Address {
            place: self.placing.place(body.identity),
            identity: body.identity,
        };
        if let Some(end) = self.ends.of(&record) {
            self.replay_removal(address)?;
            let is_dead = matches!(record.state, State::Dead { .. });
            self.put_finished(
                address.place,
                Finished {
                    location: stored.location,
                    is_dead,
                },
            );
            self.tally_window(stored.location.segment, end);
        } else {
            let operation = body.identity.operation().ok_or_else(bad)?;
            self.replay_removal(address)?;
            let has_outcome = body.has_outcome();
            let kept = Kept {
                operation,
                record,
                has_outcome,
                stored: Some(stored),
            };
            self.put_kept(address.place, Some(Box::new(kept)));
        }
        Ok(())
    }

    /// Forgets the version of a record that an entry replaces or removes.
    fn replay_removal(&mut self, address: Address<'_>) -> Result<()> {
        if let Some(kept) = self.kept.get(&address.place) {
            let Identity(bytes) = address.identity;
            let mut known = Vec::with_capacity(bytes.len());
            crate::entry::put_identity(&mut known, &kept.operation.scope, &kept.operation.key);
            if known != bytes {
                return Err(shared_place());
            }
            self.put_kept(address.place, None);
        } else if let Some((_, finished)) = self.finished(address, false)? {
            self.displace(address.place, finished);
        }
        Ok(())
    }
}

impl Recover for Ledger {
    fn log(&mut self) -> &mut Log {
        &mut self.log
    }

    fn replay(&mut self, entry: &Replayed<'_>) -> Result<()> {
        let Replayed {
            kind,
            location,
            len,
            meta,
        } = *entry;
        let stored = Stored { location, len };
        let name = self.log.name_of(location.segment);
        let bad = |what| error::corrupt(&name, u64::from(location.offset), what);
        match kind {
            Kind::Record => self.replay_record(stored, meta)?,
            Kind::Removed => {
                let identity = Identity(meta);
                self.replay_removal(Address {
                    place: self.placing.place(identity),
                    identity,
                })?;
            }
            Kind::Entity => {
                let body = EntityBody::decode(meta).ok_or_else(|| bad("an entity's contents"))?;
                let entity = Versioned {
                    value: body.record,
                    stored: Some(stored),
                };
                self.put_entity((body.scope, body.entity), Some(entity));
            }
            Kind::Mark => {
                let body = MarkBody::decode(meta).ok_or_else(|| bad("a mark's contents"))?;
                let mark = Versioned {
                    value: body.value,
                    stored: Some(stored),
                };
                self.put_mark(body.name.into(), Some(mark));
            }
            Kind::Padding | Kind::Segment | Kind::Parked | Kind::Dropped => {
                return Err(bad("an entry that belongs elsewhere"));
            }
        }
        self.undo.clear();
        Ok(())
    }
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

/// Tokens given out within one epoch.
const COUNTER_BITS: u32 = 40;
