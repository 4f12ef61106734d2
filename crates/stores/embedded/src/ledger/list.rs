//! Listing and counting: first the records in memory, in the order of digests, then those on disk, in the order of the
//! log. A cursor names where to continue in either.

use bytes::Bytes;
use semel_core::port::store::{ListQuery, Listed, Page, Stats};
use semel_core::{Error, ErrorKind, Record, Result, StateKind, Timestamp};

use super::Ledger;
use super::walk::DiskAt;
use crate::digest::Digest;
use crate::entry::Scopes;

/// Position at which a list continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cursor {
    /// In memory, at this digest.
    Memory(Digest),
    /// On disk.
    Disk(DiskAt),
}

impl Ledger {
    /// Lists records without their outcomes.
    ///
    /// # Cost   with a filter, a page looks at [`MEMORY_AT_ONCE`] records in memory, or a bounded part of the log, at
    /// most; nothing is indexed by tenant or operation
    pub(crate) fn list(&self, query: &ListQuery, now: Timestamp) -> Result<Page<Listed>> {
        let mut page = Page {
            items: Vec::new(),
            next: None,
        };
        let limit = query.limit.max(1);
        let cursor = match &query.after {
            Some(bytes) => Cursor::decode(bytes)?,
            None => Cursor::Memory(Digest::FIRST),
        };
        let disk = match cursor {
            Cursor::Memory(from) => {
                for (visited, (digest, kept)) in self.kept.range(from).enumerate() {
                    if page.items.len() == limit || visited == MEMORY_AT_ONCE {
                        page.next = Some(Cursor::Memory(digest).encode());
                        return Ok(page);
                    }
                    if matches(query, &kept.record, now) && query.fits(&kept.operation.scope) {
                        let (operation, record) = (kept.operation.clone(), kept.record.clone());
                        page.items.push(Listed { operation, record });
                    }
                }
                DiskAt::START
            }
            Cursor::Disk(disk) => disk,
        };
        let is_finished = |kind| matches!(kind, StateKind::Completed | StateKind::Dead);
        if query.state.is_some_and(|kind| !is_finished(kind)) {
            return Ok(page);
        }
        let mut scopes = Scopes::default();
        let next = self.walk_finished(disk, |on_disk| {
            if page.items.len() == limit {
                return Ok(false);
            }
            let record = on_disk.body.record(None);
            let Some(record) = record.filter(|record| matches(query, record, now)) else {
                return Ok(true);
            };
            if let Some(operation) = on_disk.body.identity.operation(&mut scopes)
                && query.fits(&operation.scope)
            {
                page.items.push(Listed { operation, record });
            }
            Ok(true)
        })?;
        page.next = next.map(|next| Cursor::Disk(next).encode());
        Ok(page)
    }

    /// Counts entities, and records by state. Segments that hold forgotten records are read through, newest first, up
    /// to [`COUNTED_BYTES`] of them; in the others those count as if their window went on, until the segment is removed.
    pub(crate) fn stats(&self, now: Timestamp) -> Result<Stats> {
        let mut stats = Stats::default();
        stats.entities = self.entities.len() as u64;
        let mut remembered = 0;
        for kept in self.kept.values() {
            count_one(&mut stats, &mut remembered, &kept.record, now);
        }
        let mut left = COUNTED_BYTES;
        for segment in self.log.segments().iter().rev() {
            let usage = &segment.usage;
            let is_exact = usage.forgets_from.is_none_or(|from| from > now);
            // Nothing else happens in the store meanwhile, so this must not take long.
            if is_exact || segment.len > left {
                count(&mut stats, StateKind::Completed, usage.finished[0]);
                count(&mut stats, StateKind::Dead, usage.finished[1]);
                continue;
            }
            left -= segment.len;
            let Some(mut scan) = self.log.scan(segment.id, 0..u32::MAX) else {
                continue;
            };
            while let Some(frame) = scan.next()? {
                self.walk_frame(segment.id, &frame, 0, |on_disk| {
                    if let Some(record) = on_disk.body.record(None) {
                        count_one(&mut stats, &mut remembered, &record, now);
                    }
                    Ok(true)
                })?;
            }
        }
        stats.remembered = Some(remembered);
        Ok(stats)
    }
}

impl Cursor {
    fn encode(self) -> Bytes {
        let mut bytes = Vec::with_capacity(17);
        match self {
            Self::Memory(digest) => {
                bytes.push(b'm');
                bytes.extend_from_slice(&digest.to_bytes());
            }
            Self::Disk(at) => {
                bytes.push(b'd');
                bytes.extend_from_slice(&at.to_bytes());
            }
        }
        bytes.into()
    }

    fn decode(bytes: &[u8]) -> Result<Self> {
        let cursor = match bytes.split_first() {
            Some((b'm', digest)) => digest
                .try_into()
                .ok()
                .map(|digest| Self::Memory(Digest::from_bytes(digest))),
            Some((b'd', rest)) => DiskAt::from_bytes(rest).map(Self::Disk),
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

/// Counts a record by its state, or as remembered if it has passed its window.
fn count_one(stats: &mut Stats, remembered: &mut u64, record: &Record, now: Timestamp) {
    if record.is_forgotten(now) {
        *remembered += 1;
    } else {
        count(stats, record.state.kind(), 1);
    }
}

fn count(stats: &mut Stats, kind: StateKind, more: u64) {
    if let Some(index) = StateKind::ALL.iter().position(|known| *known == kind) {
        stats.records[index] += more;
    }
}

/// Records in memory that one page visits at most.
const MEMORY_AT_ONCE: usize = 1 << 16;
/// Bytes of segments that are read through for one count.
const COUNTED_BYTES: u32 = 4 << 20;
