//! Parked messages, in a log of their own: they are large and stay until the operator drops them.
//!
//! Memory holds 16 bytes of id and a location each; payloads stay on disk. When most of the log has
//! been dropped, the rest of its oldest segment is carried forward and the segment removed.

mod compaction;
mod recover;

use std::collections::BTreeMap;

use semel_core::port::store::{ListQuery, Page};
use semel_core::port::transfer::Item;
use semel_core::{Audited, ErrorKind, Note, Parked, ParkedId, Result, Timestamp};

use crate::audit_index::{AuditIndex, Orders, Spot};
use crate::entry::{self, Kind, ParkedBody};
use crate::error::{self, WriteFailure};
use crate::export::ExportPage;
use crate::ledger::{foreign_cursor, read_audited};
use crate::log::{Location, Log};
use crate::options::Options;
use crate::superblock::Position;

/// The parked messages of a store.
pub(crate) struct ParkedLog {
    log: Log,
    options: Options,
    /// Messages by the order in which they were parked.
    slots: BTreeMap<u64, Slot>,
    orders: BTreeMap<ParkedId, u64>,
    /// Greater than every order in use.
    next_order: u64,
    /// Entries of the audit trail that are in this log.
    audit_index: AuditIndex,
    audit_orders: Orders,
    /// Length of all live entries.
    live_bytes: u64,
    undo: Vec<Undo>,
    scratch: Vec<u8>,
    /// The oldest segment and how far it has been carried forward.
    carried: (u32, u32),
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
    /// An entry of the audit trail, with its location and length.
    Audited(Location, u32),
    /// An entry of the audit trail that moved: order, length, old and new location.
    AuditMoved(u64, u32, Location, Location),
}

impl ParkedLog {
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

    /// Parks a message, as set aside at `since`; returns whether it is new.
    pub(crate) fn park(&mut self, id: ParkedId, message: &Parked, since: Timestamp) -> bool {
        if self.orders.contains_key(&id) {
            return false;
        }
        let order = self.next_order;
        let (location, len) = self.append(Kind::Parked, |buffer| {
            entry::put_parked(buffer, id, order, message, since);
            &message.payload
        });
        self.put(order, Slot { id, location, len });
        self.undo.push(Undo::Put(order));
        self.log.split_frame();
        true
    }

    /// Drops a message; returns whether it was there. The note goes into the audit trail.
    ///
    /// A damaged message can be dropped, too; one that cannot be read now stays.
    pub(crate) fn drop_parked(
        &mut self,
        id: ParkedId,
        note: Option<&Note>,
        now: Timestamp,
    ) -> Result<bool> {
        let Some(&order) = self.orders.get(&id) else {
            return Ok(false);
        };
        let audited = match note {
            Some(note) => Some(self.audit_drop(order, note, now)?),
            None => None,
        };
        if let Some(slot) = self.take(order) {
            self.undo.push(Undo::Taken(order, slot));
        }
        self.append(Kind::Dropped, |buffer| {
            entry::put_dropped(buffer, id);
            &[]
        });
        // Nothing ends the frame in between: either both the entry and the drop are there, or
        // neither is.
        if let Some(audited) = audited {
            self.audit(&audited);
        }
        self.log.split_frame();
        Ok(true)
    }

    /// Adds an entry to the audit trail; returns its order.
    pub(crate) fn audit(&mut self, audited: &Audited) -> u64 {
        let order = self.audit_orders.next();
        let (location, len) = self.append(Kind::Audited, |buffer| {
            entry::put_audited(buffer, order, audited);
            &[]
        });
        self.audit_index.push(Spot { order, location });
        self.usage(location, i64::from(len));
        self.undo.push(Undo::Audited(location, len));
        order
    }

    /// Returns the spots of the audit entries from `order` on.
    pub(crate) fn audit_index(&self, order: u64) -> impl Iterator<Item = Spot> {
        self.audit_index.from(order)
    }

    /// Returns the number of audit entries in this log.
    pub(crate) fn audited(&self) -> u64 {
        self.audit_index.len()
    }

    /// Reads an entry of the audit trail.
    pub(crate) fn read_audited(&mut self, location: Location) -> Result<Audited> {
        read_audited(&self.log, location, &mut self.scratch)
    }

    /// Makes all changes durable, or takes them back where they certainly are not.
    pub(crate) fn commit(&mut self) -> Result<(), WriteFailure> {
        let written = self.log.commit();
        while let Some(undo) = self.undo.pop() {
            match undo {
                _ if written.is_ok() => {}
                Undo::Put(order) => drop(self.take(order)),
                Undo::Taken(order, slot) => self.put(order, slot),
                Undo::Audited(location, len) => {
                    self.audit_index.pop();
                    self.usage(location, -i64::from(len));
                }
                Undo::AuditMoved(order, len, from, to) => {
                    self.move_audited(order, len, to, from);
                }
            }
        }
        written
    }

    /// Does one step of upkeep; nothing may be pending. Returns whether there is more to do now.
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
        if self.log.usage(oldest).is_none_or(|usage| usage.kept == 0) {
            self.log.drop_oldest()?;
            return Ok(true);
        }
        self.compact_slice(oldest)
    }

    /// Puts the messages from `order` on into `page`; returns where to continue.
    pub(crate) fn export(&mut self, order: u64, page: &mut ExportPage) -> Result<Option<u64>> {
        let Self {
            log,
            slots,
            scratch,
            ..
        } = self;
        for (&order, slot) in slots.range(order..) {
            if page.is_full() {
                return Ok(Some(order));
            }
            let message = read_message(log, slot, true, scratch)?;
            page.put(Item::Parked(Box::new(message)), slot.len as usize);
        }
        Ok(None)
    }

    /// Lists messages in the order in which they were parked.
    ///
    /// # Cost   with a filter, a page reads [`LISTED_AT_ONCE`] bytes at most, or about one message more; nothing is
    /// indexed by tenant, operation or reason
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
            if query.fits_parked(&message) {
                message = read_message(log, slot, true, scratch)?;
                read += slot.len as usize;
                page.items.push(message);
            }
        }
        scratch.truncate(LISTED_AT_ONCE);
        scratch.shrink_to(LISTED_AT_ONCE);
        Ok(page)
    }

    /// Builds the audit entry for the drop of a message.
    fn audit_drop(&mut self, order: u64, note: &Note, now: Timestamp) -> Result<Audited> {
        let Self {
            log,
            slots,
            scratch,
            ..
        } = self;
        let message = slots
            .get(&order)
            .map(|slot| read_message(log, slot, false, scratch))
            .transpose();
        match message {
            Ok(Some(message)) => Ok(message.dropped(note, now)),
            Err(error) if error.kind() != ErrorKind::Corrupt => Err(error),
            Ok(None) | Err(_) => Ok(Audited {
                at: now,
                note: note.clone(),
                action: "drop".into(),
                scope: None,
                key: None,
                before: "message kept: damaged".into(),
                after: "message dropped".into(),
            }),
        }
    }

    /// Appends an entry; returns its location and length.
    fn append<'t>(
        &mut self,
        kind: Kind,
        meta: impl FnOnce(&mut Vec<u8>) -> &'t [u8],
    ) -> (Location, u32) {
        let location = self.log.append(kind, meta);
        let end = self.log.position().offset as usize + self.log.pending_len();
        let len = u32::try_from(end).unwrap_or(u32::MAX) - location.offset;
        (location, len)
    }

    fn put(&mut self, order: u64, slot: Slot) {
        self.orders.insert(slot.id, order);
        self.usage(slot.location, i64::from(slot.len));
        self.next_order = self.next_order.max(order + 1);
        self.slots.insert(order, slot);
    }

    fn take(&mut self, order: u64) -> Option<Slot> {
        let slot = self.slots.remove(&order)?;
        self.orders.remove(&slot.id);
        self.usage(slot.location, -i64::from(slot.len));
        Some(slot)
    }

    fn move_audited(&mut self, order: u64, len: u32, from: Location, to: Location) {
        self.audit_index.relocate(order, to);
        self.usage(from, -i64::from(len));
        self.usage(to, i64::from(len));
    }

    /// Counts an entry that lives in a segment; a negative `len` takes one off.
    fn usage(&mut self, location: Location, len: i64) {
        if let Some(usage) = self.log.usage(location.segment) {
            usage.kept = usage.kept.saturating_add_signed(len.signum());
        }
        self.live_bytes = self.live_bytes.saturating_add_signed(len);
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
/// Bytes of messages that one page holds at most, about.
const LISTED_AT_ONCE: usize = 16 << 20;
/// Cost of looking at a message besides its bytes.
const READ_COST: usize = 512;
