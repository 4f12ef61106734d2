//! Parked messages: a log of their own, since they are large and stay until somebody drops them.
//!
//! Memory holds 16 bytes of id and a location each; payloads stay on disk. When most of the log has
//! been dropped, what is left in its oldest segment is carried forward and the segment removed.

use std::collections::BTreeMap;
use std::sync::Arc;

use semel_core::port::store::{ListQuery, Page};
use semel_core::{Parked, ParkedId, Result, Timestamp};

use crate::entry::{self, Kind, ParkedBody};
use crate::error::{self, WriteFailure};
use crate::files::Files;
use crate::frame;
use crate::ledger::foreign_cursor;
use crate::log::{Location, Log, LogKind, Recover, Replayed};
use crate::options::Options;
use crate::superblock::{Position, Superblock};

/// The parked messages of a store.
pub(crate) struct Shelf {
    log: Log,
    options: Options,
    /// By the order in which they were parked.
    slots: BTreeMap<u64, Slot>,
    orders: BTreeMap<ParkedId, u64>,
    /// Greater than every order in use.
    next_order: u64,
    /// Length of all live entries.
    live_bytes: u64,
    undo: Vec<Undo>,
    scratch: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    id: ParkedId,
    location: Location,
    len: u32,
}

enum Undo {
    Put(u64),
    Taken(u64, Slot),
}

impl Shelf {
    pub(crate) fn open(
        files: Arc<dyn Files>,
        superblock: &Superblock,
        options: &Options,
        now: Timestamp,
    ) -> Result<Self> {
        let mut shelf = Self {
            log: Log::unread(files, LogKind::PARKED, superblock.store_id),
            options: options.clone(),
            slots: BTreeMap::new(),
            orders: BTreeMap::new(),
            next_order: 1,
            live_bytes: 0,
            undo: Vec::new(),
            scratch: Vec::new(),
        };
        shelf.recover(superblock.parked, now)?;
        Ok(shelf)
    }

    pub(crate) fn pending_len(&self) -> usize {
        self.log.pending_len()
    }

    pub(crate) fn position(&self) -> Position {
        self.log.position()
    }

    pub(crate) fn len_bytes(&self) -> u64 {
        self.log.len_bytes()
    }

    pub(crate) fn count(&self) -> u64 {
        self.slots.len() as u64
    }

    /// Parks a message; answers whether it is new.
    pub(crate) fn park(&mut self, id: ParkedId, message: &Parked, now: Timestamp) -> bool {
        if self.orders.contains_key(&id) {
            return false;
        }
        let order = self.next_order;
        let slot = self.append(id, order, message, now);
        self.put(order, slot);
        self.undo.push(Undo::Put(order));
        self.log.split_frame();
        true
    }

    /// Drops a message; answers whether it was there.
    pub(crate) fn drop_parked(&mut self, id: ParkedId) -> bool {
        let Some(&order) = self.orders.get(&id) else {
            return false;
        };
        if let Some(slot) = self.take(order) {
            self.undo.push(Undo::Taken(order, slot));
        }
        self.log.append(Kind::Dropped, |buffer| {
            entry::put_dropped(buffer, id);
            &[]
        });
        true
    }

    /// Makes all changes durable, or takes them back where it is certain that they are not.
    pub(crate) fn commit(&mut self) -> Result<(), WriteFailure> {
        let written = self.log.commit();
        while let Some(undo) = self.undo.pop() {
            match undo {
                _ if written.is_ok() => {}
                Undo::Put(order) => drop(self.take(order)),
                Undo::Taken(order, slot) => self.put(order, slot),
            }
        }
        written
    }

    /// One step of upkeep; nothing may be pending. Answers whether there is more to do now.
    pub(crate) fn keep_up(&mut self, now: Timestamp) -> Result<bool, WriteFailure> {
        let is_long = |len: u32| u64::from(len) >= self.options.segment_bytes;
        if self.log.active().is_some_and(|active| is_long(active.len)) {
            self.log.rotate(now)?;
        }
        if self.len_bytes() < self.options.segment_bytes.min(LEAST_COMPACTED)
            || self.live_bytes.saturating_mul(2) > self.len_bytes()
        {
            return Ok(false);
        }
        if self.log.segments().len() == 1 && !self.log.rotate(now)? {
            return Ok(false);
        }
        let oldest = self.log.oldest();
        if self.log.tally(oldest).is_some_and(|tally| tally.kept > 0) {
            self.carry_slice(oldest)?;
        } else {
            self.log.drop_oldest()?;
        }
        Ok(true)
    }

    /// Lists messages in the order in which they were parked.
    pub(crate) fn list(&mut self, query: &ListQuery) -> Result<Page<Parked>> {
        let from = match &query.after {
            None => 0,
            Some(cursor) => {
                let order = <[u8; 9]>::try_from(&cursor[..]).map_err(|_| foreign_cursor())?;
                let [b'p', order @ ..] = order else {
                    return Err(foreign_cursor());
                };
                u64::from_be_bytes(order)
            }
        };
        let mut page = Page {
            items: Vec::new(),
            next: None,
        };
        let limit = query.limit.max(1);
        let mut read = 0;
        let Self {
            log,
            slots,
            scratch,
            ..
        } = self;
        for (&order, slot) in slots.range(from..) {
            if page.items.len() == limit || read >= LISTED_AT_ONCE {
                let mut cursor = vec![b'p'];
                cursor.extend_from_slice(&order.to_be_bytes());
                page.next = Some(cursor.into());
                break;
            }
            let mut message = read_message(log, slot, false, scratch)?;
            read += READ_COST;
            let fits_scope = query
                .scope
                .as_ref()
                .is_none_or(|scope| *scope == message.scope);
            if fits_scope && (query.reasons.is_empty() || query.reasons.contains(&message.reason)) {
                message = read_message(log, slot, true, scratch)?;
                read += slot.len as usize;
                page.items.push(message);
            }
        }
        scratch.truncate(LISTED_AT_ONCE);
        scratch.shrink_to(LISTED_AT_ONCE);
        Ok(page)
    }

    fn append(&mut self, id: ParkedId, order: u64, message: &Parked, since: Timestamp) -> Slot {
        let location = self.log.append(Kind::Parked, |buffer| {
            entry::put_parked(buffer, id, order, message, since);
            &message.payload
        });
        let end = self.log.position().offset as usize + self.log.pending_len();
        Slot {
            id,
            location,
            len: u32::try_from(end).unwrap_or(u32::MAX) - location.offset,
        }
    }

    fn put(&mut self, order: u64, slot: Slot) {
        self.orders.insert(slot.id, order);
        if let Some(tally) = self.log.tally(slot.location.segment) {
            tally.kept += 1;
        }
        self.live_bytes += u64::from(slot.len);
        self.next_order = self.next_order.max(order + 1);
        self.slots.insert(order, slot);
    }

    fn take(&mut self, order: u64) -> Option<Slot> {
        let slot = self.slots.remove(&order)?;
        self.orders.remove(&slot.id);
        if let Some(tally) = self.log.tally(slot.location.segment) {
            tally.kept = tally.kept.saturating_sub(1);
        }
        self.live_bytes = self.live_bytes.saturating_sub(u64::from(slot.len));
        Some(slot)
    }

    /// Writes again some of what lives in the oldest segment, as a group of its own.
    fn carry_slice(&mut self, oldest: u32) -> Result<(), WriteFailure> {
        let living: Vec<(u64, Slot)> = self
            .slots
            .iter()
            .filter(|(_, slot)| slot.location.segment == oldest)
            .map(|(order, slot)| (*order, *slot))
            .take(CARRIED_AT_ONCE)
            .collect();
        for (order, slot) in living {
            let message = read_message(&self.log, &slot, true, &mut self.scratch);
            let message = message.map_err(WriteFailure::Unknown)?;
            self.take(order);
            self.undo.push(Undo::Taken(order, slot));
            let carried = self.append(slot.id, order, &message, message.since);
            self.put(order, carried);
            self.undo.push(Undo::Put(order));
            if self.pending_len() >= CARRIED_BYTES_AT_ONCE {
                break;
            }
        }
        self.log.end_frame(frame::CARRIED);
        self.commit()
    }
}

impl Recover for Shelf {
    fn log(&mut self) -> &mut Log {
        &mut self.log
    }

    fn replay(&mut self, entry: &Replayed<'_>) -> Result<()> {
        let name = self.log.name_of(entry.location.segment);
        let bad = |what| error::corrupt(&name, u64::from(entry.location.offset), what);
        match entry.kind {
            Kind::Parked => {
                let body = ParkedBody::decode(entry.meta).ok_or_else(|| bad("a parked message"))?;
                if let Some(&order) = self.orders.get(&body.id) {
                    self.take(order);
                }
                let slot = Slot {
                    id: body.id,
                    location: entry.location,
                    len: entry.len,
                };
                self.put(body.order, slot);
            }
            Kind::Dropped => {
                let id = entry::take_dropped(entry.meta).ok_or_else(|| bad("a dropped id"))?;
                if let Some(&order) = self.orders.get(&id) {
                    self.take(order);
                }
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

fn read_message(
    log: &Log,
    slot: &Slot,
    wants_payload: bool,
    scratch: &mut Vec<u8>,
) -> Result<Parked> {
    let (header, bytes) = log.read(slot.location, wants_payload, scratch)?;
    let bad = || {
        let name = log.name_of(slot.location.segment);
        error::corrupt(&name, u64::from(slot.location.offset), "a parked message")
    };
    let body = header
        .meta(bytes)
        .and_then(ParkedBody::decode)
        .ok_or_else(bad)?;
    let mut message = body.message;
    if wants_payload {
        let payload = header.tail(bytes).ok_or_else(bad)?;
        message.payload = bytes::Bytes::copy_from_slice(payload);
    }
    Ok(message)
}

/// A log shorter than this, or than a segment, is not worth compacting.
const LEAST_COMPACTED: u64 = 4 << 20;
/// How many messages, and how many bytes of them, are carried forward at once.
const CARRIED_AT_ONCE: usize = 256;
const CARRIED_BYTES_AT_ONCE: usize = 1 << 20;
/// How many bytes of messages one page holds at most, about.
const LISTED_AT_ONCE: usize = 16 << 20;
/// What looking at a message costs beside its bytes.
const READ_COST: usize = 512;
