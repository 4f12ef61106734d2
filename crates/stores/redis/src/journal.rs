//! The journal: ids of records in the order in which they were added, and the present state of those records.
//!
//! An id in it stands for the record that carries the stamp of its entry; one that does not is another's, or gone. So
//! each record is found in one place, however often its key was used.

use redis::Value;
use semel_core::{OpId, Result, Timestamp};

use crate::buckets::Name;
use crate::error::strange;
use crate::record::{Stored, decode};
use crate::session::{Reply, Session};
use crate::wire::In;

/// Ids that one script has added.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) stamp: u64,
    pub(crate) ids: Vec<OpId>,
}

/// Returns the entries with stamps from `from` up to `to`, at most `count`.
pub(crate) async fn entries(
    session: &Session,
    bucket: usize,
    (from, to): (u64, u64),
    count: usize,
) -> Result<Vec<Entry>> {
    let mut range = session.on("XRANGE", bucket, Name::Journal);
    range.arg(from).arg(to).arg("COUNT").arg(count.max(1));
    let mut reply = Reply::of(session.command(bucket, &range).await?)?;
    let mut entries = Vec::new();
    while let Some(entry) = reply.any() {
        entries.push(entry_of(entry)?);
    }
    Ok(entries)
}

/// Returns the last entry.
pub(crate) async fn last(session: &Session, bucket: usize) -> Result<Option<Entry>> {
    let mut range = session.on("XREVRANGE", bucket, Name::Journal);
    range.arg("+").arg("-").arg("COUNT").arg(1);
    let mut reply = Reply::of(session.command(bucket, &range).await?)?;
    reply.any().map(entry_of).transpose()
}

/// Returns the records of these ids as they stand now; with their outcomes, if they are wanted.
pub(crate) async fn records(
    session: &Session,
    bucket: usize,
    ids: &[OpId],
    wants_outcomes: bool,
) -> Result<(Timestamp, Vec<Option<Result<Stored>>>)> {
    let mut found: Vec<Option<Result<Stored>>> = ids.iter().map(|_| None).collect();
    let mut open: Vec<usize> = (0..ids.len()).collect();
    loop {
        let mut call = session.call(&session.scripts.read, bucket);
        for place in &open {
            call.key(session.buckets.id_key(bucket, Name::Record, &ids[*place]));
        }
        call.arg(if wants_outcomes { *b"1" } else { *b"0" })
            .arg(*b"0");
        let mut reply = session.ask(bucket, &call).await?;
        let now = reply.now()?;
        reply.int()?;
        let mut cut = Vec::new();
        for place in open {
            let value = reply.bytes()?;
            found[place] = match decode(&value) {
                _ if value.is_empty() => None,
                Ok(stored) if stored.is_cut && wants_outcomes => {
                    cut.push(place);
                    None
                }
                stored => Some(stored),
            };
        }
        // Outcomes that were left out for their size; each call brings one at least.
        if cut.is_empty() {
            return Ok((now, found));
        }
        open = cut;
    }
}

/// A record as a visit finds it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visited {
    pub(crate) id: OpId,
    /// [`crate::record::state_number`].
    pub(crate) state: u8,
    /// Time at which it is forgotten; zero where never on its own.
    pub(crate) forget: u64,
}

/// Returns the records that are there of some entries; a sweep drops entries without any.
pub(crate) async fn visit(
    session: &Session,
    bucket: usize,
    entries: &[Entry],
    is_sweep: bool,
) -> Result<(Timestamp, Vec<Visited>)> {
    let mut call = session.call(&session.scripts.visit, bucket);
    let mut stamps = Vec::new();
    let mut ids = Vec::new();
    for entry in entries {
        for id in &entry.ids {
            call.key(session.buckets.id_key(bucket, Name::Record, id));
            stamps.extend_from_slice(&entry.stamp.to_be_bytes());
            ids.push(*id);
        }
    }
    call.arg(if is_sweep { *b"1" } else { *b"0" }).arg(stamps);
    let mut reply = session.ask(bucket, &call).await?;
    let now = reply.now()?;
    let packed = reply.bytes()?;
    let mut visited = Vec::with_capacity(packed.len() / 12);
    let mut input = In(&packed);
    while !input.is_empty() {
        let one = || {
            let place = usize::from(input.u16()?);
            let (state, _flags, forget) = (input.u8()?, input.u8()?, input.u64()?);
            let id = *ids.get(place)?;
            Some(Visited { id, state, forget })
        };
        visited.push({ one }().ok_or_else(strange)?);
    }
    Ok((now, visited))
}

/// Groups entries so that each group is as much as a script should visit.
pub(crate) fn groups(entries: Vec<Entry>) -> Vec<Vec<Entry>> {
    let mut groups: Vec<Vec<Entry>> = Vec::new();
    let mut filled = usize::MAX;
    for entry in entries {
        filled = filled.saturating_add(entry.ids.len());
        if filled > MOST_VISITED || groups.is_empty() {
            filled = entry.ids.len();
            groups.push(Vec::new());
        }
        if let Some(group) = groups.last_mut() {
            group.push(entry);
        }
    }
    groups
}

/// The stamps of a segment: entries that were added within the same seventeen seconds.
pub(crate) fn segment_range(segment: [u8; 5]) -> (u64, u64) {
    let mut first = [0; 8];
    first[..5].copy_from_slice(&segment);
    let first = u64::from_be_bytes(first);
    (first, first | 0x00ff_ffff)
}

fn entry_of(value: Value) -> Result<Entry> {
    let mut entry = Reply::of(value)?;
    let name = entry.bytes()?;
    let stamp = std::str::from_utf8(&name)
        .ok()
        .and_then(|name| name.split('-').next()?.parse().ok())
        .ok_or_else(strange)?;
    let mut fields = Reply::of(entry.any().ok_or_else(strange)?)?;
    fields.bytes()?;
    let packed = fields.bytes()?;
    let ids = packed.chunks_exact(32).filter_map(|id| id.try_into().ok());
    Ok(Entry {
        stamp,
        ids: ids.map(OpId::from_bytes).collect(),
    })
}

/// The end of every range of stamps.
pub(crate) const LAST: u64 = u64::MAX;
/// Records that a script visits at most, give or take one entry.
const MOST_VISITED: usize = 2_048;
