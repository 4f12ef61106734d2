//! Parked messages: kept, dropped, listed.

use bytes::Bytes;
use redis::Value;
use semel_core::port::store::{ListQuery, Page};
use semel_core::{Note, Parked, ParkedId, Result, Timestamp};

use crate::buckets::Name;
use crate::changes::MOST_BYTES;
use crate::error::{foreign_cursor, strange};
use crate::kinds::{self, decode_parked};
use crate::listing::score;
use crate::session::{Reply, Session};
use crate::wire::{In, Out};

/// Keeps messages, as of `since` or of now; returns for each whether it is new.
pub(crate) async fn park(
    session: &Session,
    batch: &[&Parked],
    since: impl Fn(&Parked) -> Option<Timestamp>,
) -> Result<Vec<bool>> {
    let mut new = vec![false; batch.len()];
    let ids: Vec<ParkedId> = batch.iter().map(|message| message.id()).collect();
    for (bucket, places) in by_bucket(session, &ids) {
        let mut ahead = places.into_iter().peekable();
        while ahead.peek().is_some() {
            let mut call = session.call(&session.scripts.park, bucket);
            call.key(session.buckets.key(bucket, Name::Parked));
            call.key(session.buckets.key(bucket, Name::ParkedOrder));
            let (mut some, mut bytes) = (Vec::new(), 0);
            while some.len() < MOST
                && bytes < MOST_BYTES
                && let Some(place) = ahead.next()
            {
                let packed = kinds::parked(ids[place], batch[place], since(batch[place]));
                bytes += packed.len();
                call.arg(packed);
                some.push(place);
            }
            let mut reply = session.ask(bucket, &call).await?;
            for place in some {
                new[place] = reply.int()? == 1;
            }
        }
    }
    Ok(new)
}

/// Drops messages; adds an audit entry for each that was there, if there is a note.
pub(crate) async fn drop_parked(
    session: &Session,
    ids: &[ParkedId],
    note: Option<&Note>,
) -> Result<Vec<bool>> {
    let mut there = Vec::with_capacity(ids.len());
    for ids in ids.chunks(MOST) {
        let buckets = by_bucket(session, ids);
        // The entries of one batch are in its order, whatever buckets they are in.
        let mut stamp = 0;
        if let (Some(_), true) = (note, buckets.len() > 1) {
            for (bucket, _) in &buckets {
                stamp = stamp.max(session.instant(*bucket).await?.1);
            }
        }
        let mut dropped = vec![false; ids.len()];
        for (bucket, places) in buckets {
            let asked: Vec<(usize, ParkedId)> =
                places.iter().map(|place| (*place, ids[*place])).collect();
            let was_there = drop_some(session, bucket, &asked, note, stamp).await?;
            for (place, was_there) in places.into_iter().zip(was_there) {
                dropped[place] = was_there;
            }
        }
        there.extend(dropped);
    }
    Ok(there)
}

async fn drop_some(
    session: &Session,
    bucket: usize,
    messages: &[(usize, ParkedId)],
    note: Option<&Note>,
    stamp: u64,
) -> Result<Vec<bool>> {
    let mut entries: Vec<Vec<u8>> = vec![Vec::new(); messages.len()];
    if let Some(note) = note {
        // The contents of a message that concern its operation follow from its id, so they cannot change until it is
        // dropped.
        let (now, _) = session.instant(bucket).await?;
        for (some, entries) in messages.chunks(FEW).zip(entries.chunks_mut(FEW)) {
            let ids: Vec<ParkedId> = some.iter().map(|(_, id)| *id).collect();
            let found = read(session, bucket, &ids).await?;
            for (((place, _), message), entry) in some.iter().zip(found).zip(entries) {
                if let Some(message) = message {
                    let (digest, text) = kinds::audited(&message.dropped(note, now));
                    let mut out = Out::with_capacity(text.len() + 26);
                    out.u16(u16::try_from(*place + 1).unwrap_or(u16::MAX));
                    out.u64(stamp);
                    out.raw(&digest);
                    out.raw(&text);
                    *entry = out.0;
                }
            }
        }
    }
    let mut call = session.call(&session.scripts.drop, bucket);
    for name in [
        Name::Parked,
        Name::ParkedOrder,
        Name::Audit,
        Name::AuditDigests,
    ] {
        call.key(session.buckets.key(bucket, name));
    }
    for ((_, id), entry) in messages.iter().zip(entries) {
        call.arg([&id.to_bytes()[..], &entry].concat());
    }
    let mut reply = session.ask(bucket, &call).await?;
    messages.iter().map(|_| Ok(reply.int()? == 1)).collect()
}

/// Returns a page of messages in the order of their arrival in each bucket.
///
/// # Cost   with a filter, a page looks at [`MOST_VISITED`] messages at most; nothing is indexed by tenant or operation
pub(crate) async fn list(session: &Session, query: &ListQuery) -> Result<Page<Parked>> {
    let wanted = |message: &Parked| query.fits_parked(message);
    page(session, query.after.as_deref(), query.limit.max(1), wanted).await
}

/// Does the same with a filter of its own.
pub(crate) async fn page(
    session: &Session,
    after: Option<&[u8]>,
    limit: usize,
    is_wanted: impl Fn(&Parked) -> bool,
) -> Result<Page<Parked>> {
    let (mut bucket, mut after) = match after {
        None => (0, (0, None)),
        Some(cursor) => read_cursor(cursor)
            .filter(|(bucket, _)| *bucket < session.buckets.count())
            .ok_or_else(foreign_cursor)?,
    };
    let (mut items, mut visited, mut bytes) = (Vec::new(), 0, 0);
    while bucket < session.buckets.count() {
        let ahead = ordered(session, bucket, after).await?;
        if ahead.is_empty() {
            (bucket, after) = (bucket + 1, (0, None));
            continue;
        }
        for some in ahead.chunks(FEW) {
            let ids: Vec<ParkedId> = some.iter().map(|(_, id)| *id).collect();
            for ((stamp, id), message) in some.iter().zip(read(session, bucket, &ids).await?) {
                if items.len() == limit || visited >= MOST_VISITED || bytes >= MOST_BYTES {
                    let next = Some(cursor(bucket, after));
                    return Ok(Page { items, next });
                }
                visited += 1;
                after = (*stamp, Some(*id));
                if let Some(message) = message.filter(&is_wanted) {
                    bytes += message.payload.len();
                    items.push(message);
                }
            }
        }
    }
    Ok(Page { items, next: None })
}

/// Counts the messages.
pub(crate) async fn count(session: &Session) -> Result<u64> {
    let mut count = 0;
    for bucket in session.buckets.all() {
        match session
            .command(bucket, &session.on("HLEN", bucket, Name::Parked))
            .await?
        {
            Value::Int(some) => count += u64::try_from(some).map_err(|_| strange())?,
            _ => return Err(strange()),
        }
    }
    Ok(count)
}

async fn read(session: &Session, bucket: usize, ids: &[ParkedId]) -> Result<Vec<Option<Parked>>> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let mut get = session.on("HMGET", bucket, Name::Parked);
    for id in ids {
        get.arg(&id.to_bytes()[..]);
    }
    let mut reply = Reply::of(session.command(bucket, &get).await?)?;
    ids.iter()
        .map(|_| match reply.any() {
            Some(Value::BulkString(message)) => decode_parked(&message).map(Some),
            Some(Value::Nil) => Ok(None),
            _ => Err(strange()),
        })
        .collect()
}

/// Position of a message in the order: its stamp, and the last id that was seen under it.
type After = (u64, Option<ParkedId>);

async fn ordered(session: &Session, bucket: usize, after: After) -> Result<Vec<(u64, ParkedId)>> {
    let mut range = session.on("ZRANGE", bucket, Name::ParkedOrder);
    range.arg(after.0).arg("+inf").arg("BYSCORE");
    range.arg("LIMIT").arg(0).arg(MOST * 2).arg("WITHSCORES");
    let mut reply = Reply::of(session.command(bucket, &range).await?)?;
    let mut found = Vec::new();
    while !reply.is_empty() {
        let id = <[u8; 16]>::try_from(&reply.bytes()?[..]).map_err(|_| strange())?;
        found.push((score(&reply.bytes()?)?, ParkedId::from_bytes(id)));
    }
    found.retain(|(stamp, id)| (*stamp, Some(*id)) > after);
    Ok(found)
}

fn by_bucket(session: &Session, ids: &[ParkedId]) -> Vec<(usize, Vec<usize>)> {
    let mut buckets: Vec<(usize, Vec<usize>)> = session
        .buckets
        .all()
        .map(|bucket| (bucket, Vec::new()))
        .collect();
    for (place, id) in ids.iter().enumerate() {
        buckets[session.buckets.of_parked(*id)].1.push(place);
    }
    buckets.retain(|(_, places)| !places.is_empty());
    buckets
}

fn cursor(bucket: usize, (stamp, id): After) -> Bytes {
    let mut out = Out::with_capacity(32);
    out.u8(CURSOR);
    out.u8(b'p');
    out.u16(u16::try_from(bucket).unwrap_or(u16::MAX));
    out.u64(stamp);
    if let Some(id) = id {
        out.raw(&id.to_bytes());
    }
    out.0.into()
}

fn read_cursor(cursor: &[u8]) -> Option<(usize, After)> {
    let mut input = In(cursor);
    if (input.u8()?, input.u8()?) != (CURSOR, b'p') {
        return None;
    }
    let (bucket, stamp) = (input.u16()?.into(), input.u64()?);
    let id = match input.0.len() {
        0 => None,
        _ => Some(ParkedId::from_bytes(input.array()?)),
    };
    input.is_empty().then_some((bucket, (stamp, id)))
}

/// The first byte of every cursor.
const CURSOR: u8 = 0xe6;
/// Messages that a script is given at once; those of one stamp are no more than this.
const MOST: usize = 1_024;
/// Messages that are read at once: they may be large.
const FEW: usize = 16;
/// Messages that one page looks at.
const MOST_VISITED: usize = 16_384;
