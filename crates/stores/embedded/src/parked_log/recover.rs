//! Reading the parked messages back from their log.

use std::collections::BTreeMap;
use std::sync::Arc;

use semel_core::{Result, Timestamp};

use super::{ParkedLog, Slot};
use crate::audit_index::{AuditIndex, Met, Orders, Spot};
use crate::digest::KeyedHash;
use crate::entry::{AuditedBody, Kind, ParkedBody, take_dropped};
use crate::error;
use crate::files::Files;
use crate::log::{Log, LogKind, Recover, Replayed};
use crate::options::Options;
use crate::superblock::Superblock;

impl ParkedLog {
    /// Opens the log and rebuilds the state in memory from it.
    pub(crate) fn open(
        files: Arc<dyn Files>,
        superblock: &Superblock,
        options: &Options,
        orders: &Orders,
        now: Timestamp,
    ) -> Result<Self> {
        let parked_log = Self {
            log: Log::unread(files, LogKind::PARKED, superblock.store_id),
            options: options.clone(),
            slots: BTreeMap::new(),
            orders: BTreeMap::new(),
            next_order: 1,
            audit_index: AuditIndex::default(),
            audit_orders: orders.clone(),
            live_bytes: 0,
            undo: Vec::new(),
            scratch: Vec::new(),
            carried: (0, 0),
        };
        let mut replay = Replay {
            parked_log,
            met: Vec::new(),
        };
        replay.recover(superblock.parked, now)?;
        let Replay {
            mut parked_log,
            met,
        } = replay;
        let (audit_index, older) = AuditIndex::of(met);
        parked_log.audit_index = audit_index;
        for (Spot { location, .. }, len) in older {
            parked_log.usage(location, -i64::from(len));
        }
        Ok(parked_log)
    }
}

/// A log of parked messages that is being read back.
struct Replay {
    parked_log: ParkedLog,
    /// Entries of the audit trail.
    met: Vec<Met>,
}

impl Recover for Replay {
    fn log(&mut self) -> &mut Log {
        &mut self.parked_log.log
    }

    fn keyed_hash(&self) -> Option<KeyedHash> {
        None
    }

    fn replay(&mut self, entries: &[Replayed<'_>]) -> Result<()> {
        entries.iter().try_for_each(|entry| self.replay_one(entry))
    }
}

impl Replay {
    fn replay_one(&mut self, entry: &Replayed<'_>) -> Result<()> {
        let Self { parked_log, met } = self;
        let name = parked_log.log.name_of(entry.location.segment);
        let bad = |what| error::corrupt(&name, u64::from(entry.location.offset), what);
        match entry.kind {
            Kind::Parked => {
                let body = ParkedBody::decode(entry.meta).ok_or_else(|| bad("a parked message"))?;
                if let Some(&order) = parked_log.orders.get(&body.id) {
                    parked_log.take(order);
                }
                let slot = Slot {
                    id: body.id,
                    location: entry.location,
                    len: entry.len,
                };
                parked_log.put(body.order, slot);
            }
            Kind::Dropped => {
                let id = take_dropped(entry.meta).ok_or_else(|| bad("a dropped id"))?;
                if let Some(&order) = parked_log.orders.get(&id) {
                    parked_log.take(order);
                }
            }
            Kind::Audited => {
                let order = AuditedBody::order_of(entry.meta);
                let order = order.ok_or_else(|| bad("an entry of the audit trail"))?;
                let location = entry.location;
                parked_log.audit_orders.seen(order);
                parked_log.usage(location, i64::from(entry.len));
                met.push((Spot { order, location }, entry.len));
            }
            Kind::Padding
            | Kind::Segment
            | Kind::Record
            | Kind::Removed
            | Kind::Entity
            | Kind::Mark => {
                return Err(bad("an entry that belongs elsewhere"));
            }
        }
        Ok(())
    }
}
