//! Reading without deciding: single records, and pages of records.
//!
//! All records, and the completed ones, are found by the journal; claimed and started ones by those of its segments
//! that have any; all others by an index of records that are more than simply under way or done. Each of these has an
//! order that nothing changes, so that a cursor stays good while records come and go.

mod cursor;

use std::collections::BTreeSet;

use bytes::Bytes;
use semel_core::port::store::{ListQuery, Listed, Page};
use semel_core::{OpId, Record, Result, StateKind, Timestamp};

use crate::buckets::Name;
use crate::error::{foreign_cursor, strange};
use crate::journal::{self, Entry, LAST};
use crate::record::Stored;
use crate::session::{Reply, Session};

use cursor::{By, Cursor};

/// Returns records with their outcomes, except those that count as absent.
pub(crate) async fn records(session: &Session, ids: &[OpId]) -> Result<Vec<Option<Record>>> {
    let mut buckets: Vec<Vec<usize>> = session.buckets.all().map(|_| Vec::new()).collect();
    for (index, id) in ids.iter().enumerate() {
        buckets[session.buckets.of(id)].push(index);
    }
    let mut records: Vec<Option<Record>> = ids.iter().map(|_| None).collect();
    for (bucket, indices) in buckets.iter().enumerate() {
        for indices in indices.chunks(PAGE) {
            let asked: Vec<OpId> = indices.iter().map(|index| ids[*index]).collect();
            let (now, found) = journal::records(session, bucket, &asked, true).await?;
            for (index, stored) in indices.iter().zip(found) {
                let record = stored.transpose()?.map(|stored| stored.record);
                records[*index] = record.filter(|record| !record.is_forgotten(now));
            }
        }
    }
    Ok(records)
}

/// Returns a page of records without their outcomes.
///
/// # Cost   with a filter, a page looks at [`MOST_VISITED`] records at most; nothing is indexed by tenant or operation
pub(crate) async fn list(session: &Session, query: &ListQuery) -> Result<Page<Listed>> {
    list_until(session, query, LAST).await
}

/// Returns a page of the records that were added before the stamp `until`.
pub(crate) async fn list_until(
    session: &Session,
    query: &ListQuery,
    until: u64,
) -> Result<Page<Listed>> {
    let by = match query.state {
        Some(StateKind::Released | StateKind::Dead | StateKind::InDoubt) => By::Index,
        Some(_) | None if query.repeated => By::Index,
        Some(StateKind::Claimed | StateKind::Started) => By::Live,
        Some(StateKind::Completed) | None => By::Journal,
    };
    let cursor = match &query.after {
        None => Cursor::first(by),
        Some(cursor) => Cursor::decode(cursor)
            .filter(|cursor| cursor.by == by && cursor.bucket < session.buckets.count())
            .ok_or_else(foreign_cursor)?,
    };
    let mut walk = Walk {
        session,
        cursor,
        until,
        items: Vec::new(),
        limit: query.limit.max(1),
        visited: 0,
        wants_outcomes: false,
        bytes: 0,
    };
    let is_wanted = |stored: &Stored| query.fits_record(&stored.operation, &stored.record);
    let is_end = match by {
        By::Index => walk.index(is_wanted).await?,
        By::Live | By::Journal => walk.journal(is_wanted).await?,
    };
    let next = (!is_end).then(|| walk.cursor.encode());
    Ok(Page {
        items: walk.items,
        next,
    })
}

/// Pages through all records with their outcomes, for an export; `None` as cursor is the beginning.
pub(crate) async fn all(
    session: &Session,
    cursor: Option<&[u8]>,
    limit: usize,
) -> Result<(Vec<Listed>, Option<Bytes>)> {
    let cursor = match cursor {
        None => Cursor::first(By::Journal),
        Some(cursor) => Cursor::decode(cursor)
            .filter(|cursor| cursor.by == By::Journal && cursor.bucket < session.buckets.count())
            .ok_or_else(foreign_cursor)?,
    };
    let mut walk = Walk {
        session,
        cursor,
        until: LAST,
        items: Vec::new(),
        limit,
        visited: 0,
        wants_outcomes: true,
        bytes: 0,
    };
    let is_end = walk.journal(|_| true).await?;
    let next = (!is_end).then(|| walk.cursor.encode());
    Ok((walk.items, next))
}

/// A page in the making.
struct Walk<'s> {
    session: &'s Session,
    cursor: Cursor,
    until: u64,
    items: Vec<Listed>,
    limit: usize,
    visited: usize,
    wants_outcomes: bool,
    bytes: usize,
}

impl Walk<'_> {
    fn is_full(&self) -> bool {
        self.items.len() >= self.limit || self.visited >= MOST_VISITED || self.bytes >= MOST_BYTES
    }

    /// Continues in the journal; returns whether it has come to its end.
    async fn journal(&mut self, is_wanted: impl Fn(&Stored) -> bool + Send + Sync) -> Result<bool> {
        let mut count = FEW_ENTRIES;
        while self.cursor.bucket < self.session.buckets.count() {
            let bucket = self.cursor.bucket;
            let Some((from, to)) = self.range().await? else {
                self.cursor = self.cursor.next_bucket();
                continue;
            };
            let entries = journal::entries(self.session, bucket, (from, to), count).await?;
            let is_all = entries.len() < count;
            let (mut ids, mut last) = (0, from);
            for entry in &entries {
                if !self.entry(entry, &is_wanted).await? {
                    return Ok(false);
                }
                ids += entry.ids.len();
                last = entry.stamp;
            }
            if is_all && to == self.until {
                self.cursor = self.cursor.next_bucket();
                continue;
            }
            self.cursor.stamp = if is_all { to + 1 } else { last + 1 };
            self.cursor.seen = 0;
            // Where entries are short, more of them at once.
            count = (count * MOST_AT_ONCE / ids.max(1)).clamp(FEW_ENTRIES, MOST_AT_ONCE);
        }
        Ok(true)
    }

    /// Returns the next range of stamps, if there is any in this bucket.
    async fn range(&self) -> Result<Option<(u64, u64)>> {
        let from = self.cursor.stamp;
        if self.cursor.by != By::Live {
            return Ok((from <= self.until).then_some((from, self.until)));
        }
        let keys = self.session.on("HKEYS", self.cursor.bucket, Name::Live);
        let mut reply = Reply::of(self.session.command(self.cursor.bucket, &keys).await?)?;
        let mut segments = BTreeSet::new();
        while !reply.is_empty() {
            let segment = reply.bytes()?;
            segments.insert(<[u8; 5]>::try_from(&segment[..]).map_err(|_| strange())?);
        }
        let ranges = segments.into_iter().map(journal::segment_range);
        let ahead = ranges.map(|(first, last)| (first.max(from), last.min(self.until)));
        Ok(ahead.filter(|(first, last)| first <= last).min())
    }

    /// Takes the wanted records of an entry; returns whether all of it was seen.
    async fn entry(
        &mut self,
        entry: &Entry,
        is_wanted: &(impl Fn(&Stored) -> bool + Sync),
    ) -> Result<bool> {
        if entry.stamp != self.cursor.stamp {
            self.cursor.stamp = entry.stamp;
            self.cursor.seen = 0;
        }
        while self.cursor.seen < entry.ids.len() {
            if self.is_full() {
                return Ok(false);
            }
            let rest = &entry.ids[self.cursor.seen..];
            let ids = &rest[..rest.len().min(self.at_once())];
            let (now, found) = self.find(ids).await?;
            for stored in found {
                if self.is_full() {
                    return Ok(false);
                }
                self.cursor.seen += 1;
                self.visited += 1;
                if let Some(stored) = stored.transpose()?
                    && stored.created == entry.stamp
                {
                    self.take(stored, now, is_wanted);
                }
            }
        }
        Ok(true)
    }

    /// Continues in the index; returns whether it has come to its end.
    async fn index(&mut self, is_wanted: impl Fn(&Stored) -> bool + Send + Sync) -> Result<bool> {
        while self.cursor.bucket < self.session.buckets.count() {
            loop {
                if self.is_full() {
                    return Ok(false);
                }
                // Records of one stamp come together, so some of them may have been seen.
                let count = self.at_once() + MOST_OF_A_STAMP;
                let ahead = self.indexed(count).await?;
                let is_all = ahead.len() < count;
                let after = (self.cursor.stamp, self.cursor.id);
                let ahead: Vec<_> = ahead
                    .into_iter()
                    .filter(|(stamp, id)| (*stamp, Some(*id)) > after)
                    .take(self.at_once())
                    .collect();
                let ids: Vec<OpId> = ahead.iter().map(|(_, id)| *id).collect();
                let (now, found) = self.find(&ids).await?;
                let mut seen = 0;
                for ((stamp, id), stored) in ahead.iter().zip(found) {
                    if self.is_full() {
                        return Ok(false);
                    }
                    seen += 1;
                    self.visited += 1;
                    (self.cursor.stamp, self.cursor.id) = (*stamp, Some(*id));
                    if let Some(stored) = stored.transpose()? {
                        self.take(stored, now, &is_wanted);
                    }
                }
                if is_all && seen < self.at_once() || seen == 0 {
                    break;
                }
            }
            self.cursor = self.cursor.next_bucket();
        }
        Ok(true)
    }

    async fn indexed(&self, count: usize) -> Result<Vec<(u64, OpId)>> {
        let mut range = self.session.on("ZRANGE", self.cursor.bucket, Name::Listed);
        range.arg(self.cursor.stamp).arg(self.until).arg("BYSCORE");
        range.arg("LIMIT").arg(0).arg(count).arg("WITHSCORES");
        let mut reply = Reply::of(self.session.command(self.cursor.bucket, &range).await?)?;
        let mut found = Vec::new();
        while !reply.is_empty() {
            let id = <[u8; 32]>::try_from(&reply.bytes()?[..]).map_err(|_| strange())?;
            found.push((score(&reply.bytes()?)?, OpId::from_bytes(id)));
        }
        Ok(found)
    }

    async fn find(&self, ids: &[OpId]) -> Result<(Timestamp, Vec<Option<Result<Stored>>>)> {
        if ids.is_empty() {
            return Ok((Timestamp::EPOCH, Vec::new()));
        }
        journal::records(self.session, self.cursor.bucket, ids, self.wants_outcomes).await
    }

    fn take(&mut self, stored: Stored, now: Timestamp, is_wanted: &impl Fn(&Stored) -> bool) {
        if stored.record.is_forgotten(now) || !is_wanted(&stored) {
            return;
        }
        let Stored {
            operation,
            mut record,
            ..
        } = stored;
        if !self.wants_outcomes {
            record.outcome = None;
        }
        if let Some(semel_core::Outcome::Kept { bytes, .. }) = &record.outcome {
            self.bytes += bytes.len();
        }
        self.items.push(Listed { operation, record });
    }

    fn at_once(&self) -> usize {
        let room = self.limit.saturating_sub(self.items.len());
        room.clamp(SOME, PAGE)
    }
}

/// Reads a score of an index that counts in whole numbers.
pub(crate) fn score(text: &[u8]) -> Result<u64> {
    let text = std::str::from_utf8(text).map_err(|_| strange())?;
    if let Ok(whole) = text.parse() {
        return Ok(whole);
    }
    let number: f64 = text.parse().map_err(|_| strange())?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "scores are whole and not negative; beyond what counts exactly they are the last"
    )]
    Ok(number as u64)
}

/// Records that are read at once.
const SOME: usize = 32;
const PAGE: usize = 1_024;
/// Records that one page looks at, so that a filter does not make it endless.
const MOST_VISITED: usize = 16_384;
/// Outcomes that one page holds, give or take one.
const MOST_BYTES: usize = 8 << 20;
/// Records that one script adds at most.
const MOST_OF_A_STAMP: usize = 1_024;
/// Entries of the journal that are read at once.
const FEW_ENTRIES: usize = 8;
const MOST_AT_ONCE: usize = 1_024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_read_as_they_are_written() {
        assert_eq!(score(b"1795255200000123").ok(), Some(1_795_255_200_000_123));
        assert_eq!(score(b"1e3").ok(), Some(1_000));
        assert!(score(b"x").is_err());
    }
}
