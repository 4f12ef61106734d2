//! Reading the shelf back from its log.

use std::collections::BTreeMap;
use std::sync::Arc;

use semel_core::{Result, Timestamp};

use super::{Shelf, Slot};
use crate::entry::{AuditedBody, Kind, ParkedBody, take_dropped};
use crate::error;
use crate::files::Files;
use crate::log::{Log, LogKind, Recover, Replayed};
use crate::options::Options;
use crate::place::Placing;
use crate::superblock::Superblock;
use crate::trail::{Met, Orders, Spot, Trail};

impl Shelf {
    /// Opens the log and rebuilds the state in memory from it.
    pub(crate) fn open(
        files: Arc<dyn Files>,
        superblock: &Superblock,
        options: &Options,
        orders: &Orders,
        now: Timestamp,
    ) -> Result<Self> {
        let shelf = Self {
            log: Log::unread(files, LogKind::PARKED, superblock.store_id),
            options: options.clone(),
            slots: BTreeMap::new(),
            orders: BTreeMap::new(),
            next_order: 1,
            trail: Trail::default(),
            audit_orders: orders.clone(),
            live_bytes: 0,
            undo: Vec::new(),
            scratch: Vec::new(),
            carried: (0, 0),
        };
        let mut replay = Replay {
            shelf,
            met: Vec::new(),
        };
        replay.recover(superblock.parked, now)?;
        let Replay { mut shelf, met } = replay;
        let (trail, older) = Trail::of(met);
        shelf.trail = trail;
        for (Spot { location, .. }, len) in older {
            shelf.tally(location, -i64::from(len));
        }
        Ok(shelf)
    }
}

/// A shelf that is being read back.
struct Replay {
    shelf: Shelf,
    /// Entries of the audit trail.
    met: Vec<Met>,
}

impl Recover for Replay {
    fn log(&mut self) -> &mut Log {
        &mut self.shelf.log
    }

    fn placing(&self) -> Option<Placing> {
        None
    }

    fn replay(&mut self, entries: &[Replayed<'_>]) -> Result<()> {
        entries.iter().try_for_each(|entry| self.replay_one(entry))
    }
}

impl Replay {
    fn replay_one(&mut self, entry: &Replayed<'_>) -> Result<()> {
        let Self { shelf, met } = self;
        let name = shelf.log.name_of(entry.location.segment);
        let bad = |what| error::corrupt(&name, u64::from(entry.location.offset), what);
        match entry.kind {
            Kind::Parked => {
                let body = ParkedBody::decode(entry.meta).ok_or_else(|| bad("a parked message"))?;
                if let Some(&order) = shelf.orders.get(&body.id) {
                    shelf.take(order);
                }
                let slot = Slot {
                    id: body.id,
                    location: entry.location,
                    len: entry.len,
                };
                shelf.put(body.order, slot);
            }
            Kind::Dropped => {
                let id = take_dropped(entry.meta).ok_or_else(|| bad("a dropped id"))?;
                if let Some(&order) = shelf.orders.get(&id) {
                    shelf.take(order);
                }
            }
            Kind::Audited => {
                let order = AuditedBody::order_of(entry.meta);
                let order = order.ok_or_else(|| bad("an entry of the audit trail"))?;
                let location = entry.location;
                shelf.audit_orders.seen(order);
                shelf.tally(location, i64::from(entry.len));
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
