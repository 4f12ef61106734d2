//! Listing and counting: first what is in memory, in the order of places, then what is on disk, in
//! the order of the log. A cursor names where to go on in either.

use bytes::Bytes;
use semel_core::port::store::{ListQuery, Listed, Page, Stats};
use semel_core::{Error, ErrorKind, Record, Result, StateKind, Timestamp};

use super::Ledger;
use crate::entry::{self, Kind, RecordBody};
use crate::log::{Frame, Location};
use crate::place::Place;

/// Where a list goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cursor {
    /// In memory, at this place.
    Memory(Place),
    /// On disk, in the frame at this location, at its entry of this number.
    Disk { location: Location, entry: u32 },
}

impl Ledger {
    /// Lists records without their outcomes.
    pub(crate) fn list(&self, query: &ListQuery, now: Timestamp) -> Result<Page<Listed>> {
        let mut page = Page {
            items: Vec::new(),
            next: None,
        };
        let limit = query.limit.max(1);
        let mut disk = Location {
            segment: self.log.oldest(),
            offset: 0,
        };
        let mut first_entry = 0;
        let cursor = match &query.after {
            Some(bytes) => Cursor::decode(bytes)?,
            None => Cursor::Memory(Place::FIRST),
        };
        match cursor {
            Cursor::Memory(from) => {
                for (visited, (place, kept)) in self.kept.range(from..).enumerate() {
                    if page.items.len() == limit || visited == MEMORY_AT_ONCE {
                        page.next = Some(Cursor::Memory(*place).encode());
                        return Ok(page);
                    }
                    if matches(query, &kept.record, now) && fits_scope(query, &kept.operation.scope)
                    {
                        let (operation, record) = (kept.operation.clone(), kept.record.clone());
                        page.items.push(Listed { operation, record });
                    }
                }
            }
            Cursor::Disk { location, entry } => {
                (disk, first_entry) = (location, entry);
                // The segment may have been dropped since.
                if location.segment < self.log.oldest() {
                    disk = Location {
                        segment: self.log.oldest(),
                        offset: 0,
                    };
                    first_entry = 0;
                }
            }
        }
        if let Some(next) = self.list_disk(query, now, disk, first_entry, limit, &mut page.items)? {
            page.next = Some(next.encode());
        }
        Ok(page)
    }

    /// Lists finished records from a location on; answers where to go on.
    fn list_disk(
        &self,
        query: &ListQuery,
        now: Timestamp,
        from: Location,
        mut first_entry: u32,
        limit: usize,
        items: &mut Vec<Listed>,
    ) -> Result<Option<Cursor>> {
        let is_finished = |kind| matches!(kind, StateKind::Completed | StateKind::Dead);
        if query.state.is_some_and(|kind| !is_finished(kind)) {
            return Ok(None);
        }
        let mut offset = from.offset;
        let mut read = 0_u64;
        for segment in self
            .log
            .segments()
            .iter()
            .filter(|segment| segment.id >= from.segment)
        {
            let Some(mut scan) = self.log.scan(segment.id, offset..u32::MAX) else {
                continue;
            };
            offset = 0;
            loop {
                let location = Location {
                    segment: segment.id,
                    offset: scan.offset(),
                };
                if read >= DISK_AT_ONCE {
                    return Ok(Some(Cursor::Disk { location, entry: 0 }));
                }
                let Some(frame) = scan.next()? else { break };
                read += frame.header.frame_len() as u64;
                let mut entries = 0;
                let mut next = None;
                self.visit_finished(segment.id, &frame, |number, body| {
                    entries = number;
                    if number < first_entry || next.is_some() {
                        return;
                    }
                    if items.len() == limit {
                        next = Some(Cursor::Disk {
                            location,
                            entry: number,
                        });
                        return;
                    }
                    let Some(record) = body.record(None) else {
                        return;
                    };
                    let Some(operation) = body.identity.operation() else {
                        return;
                    };
                    if matches(query, &record, now) && fits_scope(query, &operation.scope) {
                        items.push(Listed { operation, record });
                    }
                });
                first_entry = 0;
                if next.is_some() {
                    return Ok(next);
                }
            }
        }
        Ok(None)
    }

    /// Shows the records of a frame that the table places there, with their number in the frame.
    fn visit_finished(
        &self,
        segment: u32,
        frame: &Frame<'_>,
        mut visit: impl FnMut(u32, &RecordBody<'_>),
    ) {
        let mut payload = frame.payload;
        let mut number = 0;
        loop {
            let at = u32::try_from(frame.payload.len() - payload.len()).unwrap_or(u32::MAX);
            let Some((header, bytes)) = entry::next(&mut payload) else {
                return;
            };
            let location = Location {
                segment,
                offset: frame.payload_offset() + at,
            };
            let meta = header.meta(bytes).filter(|_| header.kind == Kind::Record);
            if let Some(body) = meta.and_then(RecordBody::new) {
                let tag = self.placing.place(body.identity).tag;
                if self.table.locations(tag).any(|placed| placed == location) {
                    visit(number, &body);
                }
            }
            number += 1;
        }
    }

    /// Counts records by state. Segments in which some records are forgotten are read through.
    pub(crate) fn stats(&self, now: Timestamp) -> Result<Stats> {
        let mut stats = Stats::default();
        for kept in self.kept.values() {
            if !kept.record.is_forgotten(now) {
                count(&mut stats, kept.record.state.kind(), 1);
            }
        }
        for segment in self.log.segments() {
            let tally = &segment.tally;
            if tally.forgets_from.is_none_or(|from| from > now) {
                count(&mut stats, StateKind::Completed, tally.finished[0]);
                count(&mut stats, StateKind::Dead, tally.finished[1]);
                continue;
            }
            let Some(mut scan) = self.log.scan(segment.id, 0..u32::MAX) else {
                continue;
            };
            while let Some(frame) = scan.next()? {
                self.visit_finished(segment.id, &frame, |_, body| {
                    if let Some(record) =
                        body.record(None).filter(|record| !record.is_forgotten(now))
                    {
                        count(&mut stats, record.state.kind(), 1);
                    }
                });
            }
        }
        Ok(stats)
    }
}

impl Cursor {
    fn encode(self) -> Bytes {
        let mut bytes = Vec::with_capacity(17);
        match self {
            Self::Memory(place) => {
                bytes.push(b'm');
                bytes.extend_from_slice(&place.to_bytes());
            }
            Self::Disk { location, entry } => {
                bytes.push(b'd');
                bytes.extend_from_slice(&location.segment.to_be_bytes());
                bytes.extend_from_slice(&location.offset.to_be_bytes());
                bytes.extend_from_slice(&entry.to_be_bytes());
            }
        }
        bytes.into()
    }

    fn decode(bytes: &[u8]) -> Result<Self> {
        let number = |bytes: &[u8]| bytes.try_into().ok().map(u32::from_be_bytes);
        let cursor = match bytes.split_first() {
            Some((b'm', place)) => place
                .try_into()
                .ok()
                .map(|place| Self::Memory(Place::from_bytes(place))),
            Some((b'd', rest)) if rest.len() == 12 => {
                let parts = (number(&rest[..4]), number(&rest[4..8]), number(&rest[8..]));
                match parts {
                    (Some(segment), Some(offset), Some(entry)) => Some(Self::Disk {
                        location: Location { segment, offset },
                        entry,
                    }),
                    _ => None,
                }
            }
            Some(_) | None => None,
        };
        cursor.ok_or_else(foreign_cursor)
    }
}

pub(crate) fn foreign_cursor() -> Error {
    Error::new(
        ErrorKind::InvalidInput,
        "the cursor is not one that this store gave out",
    )
}

fn matches(query: &ListQuery, record: &Record, now: Timestamp) -> bool {
    query.state.is_none_or(|kind| record.state.kind() == kind)
        && (!query.repeated || record.possible_repeats > 0)
        && !record.is_forgotten(now)
}

fn fits_scope(query: &ListQuery, scope: &semel_core::Scope) -> bool {
    query.scope.as_ref().is_none_or(|wanted| wanted == scope)
}

fn count(stats: &mut Stats, kind: StateKind, more: u64) {
    if let Some(index) = StateKind::ALL.iter().position(|known| *known == kind) {
        stats.records[index] += more;
    }
}

/// How much of the memory and of the log one page goes through at most.
const MEMORY_AT_ONCE: usize = 1 << 16;
const DISK_AT_ONCE: u64 = 16 << 20;
