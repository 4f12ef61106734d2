//! The audit trail: pages of it, and entries of another store.

use bytes::Bytes;
use futures_util::future::try_join_all;
use redis::Value;
use semel_core::port::store::{ListQuery, Page};
use semel_core::{Audited, Result};

use crate::buckets::Name;
use crate::error::{foreign_cursor, strange};
use crate::kinds::{self, decode_audited};
use crate::session::{Reply, Session};
use crate::wire::{In, Out};

/// Returns a page of entries, oldest first.
///
/// # Cost   with a filter, a page reads the trails of all buckets [`MOST_TURNS`] times at most
pub(crate) async fn list(session: &Session, query: &ListQuery) -> Result<Page<Audited>> {
    let wanted = |entry: &Audited| query.fits_entry(entry);
    page(session, query.after.as_deref(), query.limit.max(1), wanted).await
}

/// Does the same with a filter of its own.
pub(crate) async fn page(
    session: &Session,
    after: Option<&[u8]>,
    limit: usize,
    is_wanted: impl Fn(&Audited) -> bool,
) -> Result<Page<Audited>> {
    let mut after = match after {
        None => Cursor::default(),
        Some(cursor) => Cursor::decode(cursor).ok_or_else(foreign_cursor)?,
    };
    let mut items = Vec::new();
    for _ in 0..MOST_TURNS {
        let count = (limit - items.len()).clamp(FEW, MOST);
        let (ahead, is_all) = merged(session, after, count).await?;
        for (cursor, entry) in ahead {
            if items.len() == limit {
                let next = Some(after.encode());
                return Ok(Page { items, next });
            }
            after = cursor;
            if is_wanted(&entry) {
                items.push(entry);
            }
        }
        if is_all {
            return Ok(Page { items, next: None });
        }
    }
    let next = Some(after.encode());
    Ok(Page { items, next })
}

/// Adds entries of another store that have no equal here; returns for each whether it is new.
pub(crate) async fn import(session: &Session, entries: &[&Audited]) -> Result<Vec<bool>> {
    let mut new = Vec::with_capacity(entries.len());
    for entries in entries.chunks(MOST) {
        new.extend(import_some(session, entries).await?);
    }
    Ok(new)
}

async fn import_some(session: &Session, entries: &[&Audited]) -> Result<Vec<bool>> {
    let packed: Vec<_> = entries.iter().map(|entry| kinds::audited(entry)).collect();
    // Entries of orders are in the buckets of their operations, those of an import in the first.
    let mut is_known = vec![false; packed.len()];
    for bucket in session.buckets.all().skip(1) {
        let mut are_members = session.on("SMISMEMBER", bucket, Name::AuditDigests);
        for (digest, _) in &packed {
            are_members.arg(&digest[..]);
        }
        let mut reply = Reply::of(session.command(bucket, &are_members).await?)?;
        for known in &mut is_known {
            *known |= reply.int()? == 1;
        }
    }
    let mut call = session.call(&session.scripts.audit, IMPORTED);
    call.key(session.buckets.key(IMPORTED, Name::Audit));
    call.key(session.buckets.key(IMPORTED, Name::AuditDigests));
    for ((digest, text), _) in packed.iter().zip(&is_known).filter(|(_, known)| !**known) {
        call.arg([&digest[..], text].concat());
    }
    let mut reply = session.ask(IMPORTED, &call).await?;
    is_known
        .iter()
        .map(|known| Ok(!known && reply.int()? == 1))
        .collect()
}

/// Position of an entry: its stamp, its number under it, its bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Cursor {
    stamp: u64,
    number: u64,
    bucket: usize,
}

impl Cursor {
    fn encode(self) -> Bytes {
        let mut out = Out::with_capacity(20);
        out.u8(CURSOR);
        out.u8(b'a');
        out.u64(self.stamp);
        out.u64(self.number);
        out.u16(u16::try_from(self.bucket).unwrap_or(u16::MAX));
        out.0.into()
    }

    fn decode(cursor: &[u8]) -> Option<Self> {
        let mut input = In(cursor);
        if (input.u8()?, input.u8()?) != (CURSOR, b'a') {
            return None;
        }
        let (stamp, number, bucket) = (input.u64()?, input.u64()?, input.u16()?.into());
        input.is_empty().then_some(Self {
            stamp,
            number,
            bucket,
        })
    }
}

/// Returns at most `count` entries behind a cursor, of all buckets in their order, and whether these are all.
async fn merged(
    session: &Session,
    after: Cursor,
    count: usize,
) -> Result<(Vec<(Cursor, Audited)>, bool)> {
    let ranges = try_join_all(session.buckets.all().map(|bucket| async move {
        let mut range = session.on("XRANGE", bucket, Name::Audit);
        let (stamp, number) = (after.stamp, after.number);
        range
            .arg(format!("{stamp}-{number}"))
            .arg("+")
            .arg("COUNT")
            .arg(count + 1);
        let mut reply = Reply::of(session.command(bucket, &range).await?)?;
        let mut found = Vec::new();
        let mut seen = 0;
        while let Some(entry) = reply.any() {
            seen += 1;
            let entry = entry_of(bucket, entry)?;
            if entry.0 > after || after == Cursor::default() {
                found.push(entry);
            }
        }
        Ok((found, seen <= count))
    }));
    let (found, is_all): (Vec<_>, Vec<bool>) = ranges.await?.into_iter().unzip();
    // Entries behind the last one of a bucket that has more may come after entries that were not read.
    let end = found
        .iter()
        .zip(&is_all)
        .filter(|(_, is_all)| !**is_all)
        .filter_map(|(found, _)| found.last().map(|(cursor, _)| *cursor))
        .min();
    let mut all: Vec<_> = found.into_iter().flatten().collect();
    all.sort_by_key(|(cursor, _)| *cursor);
    all.retain(|(cursor, _)| end.is_none_or(|end| *cursor <= end));
    let is_all = end.is_none() && all.len() <= count;
    all.truncate(count);
    Ok((all, is_all))
}

fn entry_of(bucket: usize, value: Value) -> Result<(Cursor, Audited)> {
    let mut entry = Reply::of(value)?;
    let name = String::from_utf8(entry.bytes()?).map_err(|_| strange())?;
    let parts = name
        .split_once('-')
        .and_then(|(stamp, number)| Some((stamp.parse().ok()?, number.parse().ok()?)));
    let (stamp, number) = parts.ok_or_else(strange)?;
    let mut fields = Reply::of(entry.any().ok_or_else(strange)?)?;
    fields.bytes()?;
    let cursor = Cursor {
        stamp,
        number,
        bucket,
    };
    Ok((cursor, decode_audited(&fields.bytes()?)?))
}

/// The first byte of every cursor.
const CURSOR: u8 = 0xe6;
/// The bucket of entries that came from another store.
const IMPORTED: usize = 0;
/// Entries that are read of each bucket at once.
const FEW: usize = 16;
const MOST: usize = 1_024;
/// Turns in which one page reads on where a filter leaves nothing.
const MOST_TURNS: usize = 64;
