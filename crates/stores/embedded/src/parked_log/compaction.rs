//! Compacts the log: carries forward the live entries of its oldest segment, in slices.

use semel_core::{ParkedId, Result};

use super::{ParkedLog, Slot, Undo};
use crate::entry::{self, AuditedBody, Header, Kind, take_parked_id};
use crate::error::WriteFailure;
use crate::frame;
use crate::log::Location;

impl ParkedLog {
    /// Rewrites the live entries in the next slice of the oldest segment, as a group of their own.
    /// Returns whether there is more to do now.
    pub(super) fn compact_slice(&mut self, oldest: u32) -> Result<bool, WriteFailure> {
        let (segment, offset) = self.carried;
        let from = if segment == oldest { offset } else { 0 };
        let (found, next) = self.living(oldest, from).map_err(WriteFailure::Unknown)?;
        if next == from {
            // Something in there cannot be read, so the segment stays.
            return Ok(false);
        }
        for living in found {
            self.carry(&living);
        }
        self.log.end_frame(frame::CARRIED);
        self.commit()?;
        self.carried = (oldest, next);
        Ok(true)
    }

    /// Reads the live entries in a slice of a segment; returns them with the start of the next
    /// slice.
    fn living(&self, segment: u32, from: u32) -> Result<(Vec<Living>, u32)> {
        let mut found = Vec::new();
        let Some(mut scan) = self.log.scan(segment, from..u32::MAX) else {
            return Ok((found, from));
        };
        while scan.offset() - from < SLICE_BYTES {
            let Some(frame) = scan.next()? else { break };
            let mut payload = frame.payload;
            loop {
                let at = u32::try_from(frame.payload.len() - payload.len()).unwrap_or(u32::MAX);
                let Some((header, bytes)) = entry::next(&mut payload) else {
                    break;
                };
                let location = Location {
                    segment,
                    offset: frame.payload_offset() + at,
                };
                found.extend(self.as_living(header, bytes, location));
            }
        }
        Ok((found, scan.offset()))
    }

    fn as_living(&self, header: Header, bytes: &[u8], location: Location) -> Option<Living> {
        let meta = header.meta(bytes)?;
        let what = match header.kind {
            Kind::Parked => {
                let id = take_parked_id(meta)?;
                let order = *self.orders.get(&id)?;
                let slot = self.slots.get(&order)?;
                (slot.location == location).then_some(What::Parked(id, order))?
            }
            Kind::Audited => {
                let order = AuditedBody::order_of(meta)?;
                (self.audit_index.location(order) == Some(location))
                    .then_some(What::Audited(order))?
            }
            Kind::Padding
            | Kind::Segment
            | Kind::Record
            | Kind::Removed
            | Kind::Entity
            | Kind::Mark
            | Kind::Dropped => return None,
        };
        Some(Living {
            what,
            location,
            meta: meta.into(),
            tail: header.tail(bytes)?.into(),
        })
    }

    fn carry(&mut self, living: &Living) {
        let kind = match living.what {
            What::Parked(..) => Kind::Parked,
            What::Audited(_) => Kind::Audited,
        };
        let (location, len) = self.append(kind, |buffer| {
            buffer.extend_from_slice(&living.meta);
            &living.tail
        });
        match living.what {
            What::Parked(id, order) => {
                if let Some(slot) = self.take(order) {
                    self.undo.push(Undo::Taken(order, slot));
                }
                self.put(order, Slot { id, location, len });
                self.undo.push(Undo::Put(order));
            }
            What::Audited(order) => {
                let (from, to) = (living.location, location);
                self.move_audited(order, len, from, to);
                self.undo.push(Undo::AuditMoved(order, len, from, to));
            }
        }
    }
}

/// An entry that lives in the segment that is being carried forward.
struct Living {
    what: What,
    location: Location,
    meta: Box<[u8]>,
    tail: Box<[u8]>,
}

#[derive(Clone, Copy)]
enum What {
    Parked(ParkedId, u64),
    Audited(u64),
}

/// Bytes of the oldest segment that are processed at once.
const SLICE_BYTES: u32 = 1 << 18;
