//! Everything out, page by page, and items of another store in.

use std::collections::HashMap;

use bytes::Bytes;
use redis::Value;
use semel_core::ledger::Found;
use semel_core::port::store::{ListQuery, Listed, Page};
use semel_core::port::transfer::Item;
use semel_core::{
    Audited, Entity, EntityRecord, Error, ErrorKind, FencingToken, Mark, OpId, Parked, Result,
    Scope,
};

use crate::buckets::Name;
use crate::changes::{Changes, MOST_KEYS};
use crate::error::{contended, strange, ungated};
use crate::journal;
use crate::kinds::decode_entity;
use crate::record::{token, token_parts};
use crate::retry::{PATIENT, ROUNDS, pause};
use crate::session::{Reply, Session};
use crate::wire::owned;
use crate::{audit, listing, parked};

/// Returns a page of everything: the token, then kind by kind.
pub(crate) async fn export(
    session: &Session,
    after: Option<&[u8]>,
    limit: usize,
) -> Result<Page<Item>> {
    let mut items = Vec::new();
    let (mut kind, mut cursor) = match after {
        None => {
            let (stamp, number) = last_token(session).await?;
            items.push(Item::Token(token(stamp, number)));
            (RECORDS, None)
        }
        Some([CURSOR, kind, rest @ ..]) if (RECORDS..=AUDIT).contains(kind) => {
            (*kind, (!rest.is_empty()).then(|| owned(rest)))
        }
        Some(_) => return Err(foreign_export()),
    };
    let limit = limit.max(1);
    while kind <= AUDIT {
        let room = limit - items.len();
        if room == 0 {
            let next = Some(cursor_of(kind, cursor.as_ref()));
            return Ok(Page { items, next });
        }
        let (some, next) = export_kind(session, kind, cursor.as_deref(), room)
            .await
            .map_err(|error| match error.kind() {
                ErrorKind::InvalidInput => foreign_export(),
                _ => error,
            })?;
        items.extend(some);
        // Records are paged by their size as well.
        if let Some(next) = next {
            let next = Some(cursor_of(kind, Some(&next)));
            return Ok(Page { items, next });
        }
        (kind, cursor) = (kind + 1, None);
    }
    Ok(Page { items, next: None })
}

/// Adds items; returns for each whether it is new.
pub(crate) async fn import(session: &Session, batch: &[Item]) -> Result<Vec<bool>> {
    let mut new = vec![false; batch.len()];
    let mut records = Vec::new();
    let (mut messages, mut entries) = (Vec::new(), Vec::new());
    for (at, item) in batch.iter().enumerate() {
        match item {
            Item::Token(token) => new[at] = raise_token(session, *token).await?,
            Item::Record(listed) => {
                if session.is_cluster() && listed.record.gate.is_some() {
                    return Err(ungated());
                }
                records.push((at, &**listed));
            }
            Item::Entity(scope, entity, record) => {
                new[at] = add_entity(session, scope, entity, record).await?;
            }
            Item::Mark(mark) => new[at] = add_mark(session, mark).await?,
            Item::Parked(message) => messages.push((at, &**message)),
            Item::Audited(entry) => entries.push((at, &**entry)),
        }
    }
    add_records(session, &records, &mut new).await?;
    let (places, messages): (Vec<usize>, Vec<&Parked>) = messages.into_iter().unzip();
    let kept = parked::park(session, &messages, |message| Some(message.since)).await?;
    for (at, is_new) in places.into_iter().zip(kept) {
        new[at] = is_new;
    }
    let (places, entries): (Vec<usize>, Vec<&Audited>) = entries.into_iter().unzip();
    for (at, is_new) in places
        .into_iter()
        .zip(audit::import(session, &entries).await?)
    {
        new[at] = is_new;
    }
    Ok(new)
}

async fn export_kind(
    session: &Session,
    kind: u8,
    cursor: Option<&[u8]>,
    room: usize,
) -> Result<(Vec<Item>, Option<Bytes>)> {
    match kind {
        RECORDS => {
            let (records, next) = listing::all(session, cursor, room).await?;
            let records = records.into_iter().map(|it| Item::Record(Box::new(it)));
            Ok((records.collect(), next))
        }
        ENTITIES => entities(session, cursor, room).await,
        MARKS => marks(session, cursor, room).await,
        PARKED => {
            let page = parked::page(session, cursor, room, |_| true).await?;
            let messages = page.items.into_iter().map(|it| Item::Parked(Box::new(it)));
            Ok((messages.collect(), page.next))
        }
        _ => {
            let query = ListQuery {
                after: cursor.map(owned),
                limit: room,
                ..ListQuery::default()
            };
            let page = audit::list(session, &query).await?;
            let entries = page.items.into_iter().map(|it| Item::Audited(Box::new(it)));
            Ok((entries.collect(), page.next))
        }
    }
}

/// Returns entities in the order in which they came; the cursor is the number seen.
async fn entities(
    session: &Session,
    cursor: Option<&[u8]>,
    room: usize,
) -> Result<(Vec<Item>, Option<Bytes>)> {
    let from = match cursor {
        None => 0,
        Some(cursor) => u64::from_be_bytes(cursor.try_into().map_err(|_| foreign_export())?),
    };
    let room = room.min(MOST_KEYS);
    let mut range = session.on("LRANGE", ONLY, Name::Entities);
    range.arg(from).arg(from + room as u64 - 1);
    let mut reply = Reply::of(session.command(ONLY, &range).await?)?;
    let mut ids = Vec::new();
    while !reply.is_empty() {
        let id = reply.bytes()?.try_into().map_err(|_| strange())?;
        ids.push(OpId::from_bytes(id));
    }
    if ids.is_empty() {
        return Ok((Vec::new(), None));
    }
    let mut get = redis::cmd("MGET");
    for id in &ids {
        get.arg(session.buckets.id_key(ONLY, Name::Entity, id));
    }
    let mut reply = Reply::of(session.command(ONLY, &get).await?)?;
    let mut items = Vec::with_capacity(ids.len());
    while !reply.is_empty() {
        let stored = decode_entity(&reply.bytes()?)?;
        items.push(Item::Entity(stored.scope, stored.entity, stored.record));
    }
    let next = from + ids.len() as u64;
    let is_all = ids.len() < room;
    Ok((items, (!is_all).then(|| owned(&next.to_be_bytes()))))
}

/// Returns marks in the order of their names; the cursor is the last of them.
async fn marks(
    session: &Session,
    cursor: Option<&[u8]>,
    room: usize,
) -> Result<(Vec<Item>, Option<Bytes>)> {
    let all = session.on("HGETALL", ONLY, Name::Marks);
    let mut reply = Reply::of(session.command(ONLY, &all).await?)?;
    let mut marks = Vec::new();
    while !reply.is_empty() {
        let (name, value) = (reply.bytes()?, reply.bytes()?);
        let value = std::str::from_utf8(&value)
            .ok()
            .and_then(|value| value.parse().ok());
        let name = String::from_utf8(name).map_err(|_| strange())?;
        marks.push(Mark {
            name: name.into(),
            value: value.ok_or_else(strange)?,
        });
    }
    marks.sort_by(|one, other| one.name.cmp(&other.name));
    marks.retain(|mark| cursor.is_none_or(|cursor| mark.name.as_bytes() > cursor));
    let is_all = marks.len() <= room;
    marks.truncate(room);
    let last = marks.last().map(|mark| owned(mark.name.as_bytes()));
    let next = last.filter(|_| !is_all);
    Ok((marks.into_iter().map(Item::Mark).collect(), next))
}

async fn last_token(session: &Session) -> Result<(u64, u16)> {
    let mut last = (0, 0);
    for bucket in session.buckets.all() {
        let mut call = session.call(&session.scripts.token, bucket);
        call.arg(Vec::new());
        let mut reply = session.ask(bucket, &call).await?;
        last = last.max((reply.int()?, number(reply.int()?)?));
    }
    Ok(last)
}

/// Gives out no token up to this one from here on; returns whether that changes anything.
async fn raise_token(session: &Session, floor: FencingToken) -> Result<bool> {
    let (stamp, number) = token_parts(floor).ok_or_else(|| {
        Error::new(
            ErrorKind::InvalidInput,
            "the fencing token of the other store is higher than a Redis store can count",
        )
    })?;
    if (stamp, number) <= last_token(session).await? {
        return Ok(false);
    }
    let mut floor = stamp.to_be_bytes().to_vec();
    floor.extend_from_slice(&number.to_be_bytes());
    let mut was_raised = false;
    for bucket in session.buckets.all() {
        let mut call = session.call(&session.scripts.token, bucket);
        call.arg(floor.clone());
        let mut reply = session.ask(bucket, &call).await?;
        let (_now, _stamp) = (reply.int()?, reply.int()?);
        was_raised |= reply.int()? == 1;
    }
    Ok(was_raised)
}

async fn add_records(
    session: &Session,
    records: &[(usize, &Listed)],
    new: &mut [bool],
) -> Result<()> {
    let mut buckets: HashMap<usize, Vec<(usize, OpId, &Listed)>> = HashMap::new();
    for (at, listed) in records {
        let id = listed.operation.id();
        let bucket = buckets.entry(session.buckets.of(&id)).or_default();
        bucket.push((*at, id, listed));
    }
    for (bucket, mut records) in buckets {
        // Of two items about one operation, the first counts.
        let mut seen = std::collections::HashSet::new();
        records.retain(|(_, id, _)| seen.insert(*id));
        let mut round = 0;
        while !records.is_empty() {
            if round == ROUNDS {
                return Err(contended());
            }
            if round >= PATIENT {
                pause(round - PATIENT + 1).await;
            }
            round += 1;
            let mut again = Vec::new();
            let mut rest = &records[..];
            while !rest.is_empty() {
                let (some, others) = rest.split_at(rest.len().min(MOST_KEYS));
                rest = others;
                add_some(session, bucket, some, new, &mut again).await?;
            }
            records = again;
        }
    }
    Ok(())
}

/// Adds those that are not there, in as many scripts as their size requires.
async fn add_some<'r>(
    session: &Session,
    bucket: usize,
    records: &[(usize, OpId, &'r Listed)],
    new: &mut [bool],
    again: &mut Vec<(usize, OpId, &'r Listed)>,
) -> Result<()> {
    let ids: Vec<OpId> = records.iter().map(|(_, id, _)| *id).collect();
    let (now, found) = journal::records(session, bucket, &ids, false).await?;
    let mut ahead = records.iter().zip(found).peekable();
    while ahead.peek().is_some() {
        let mut changes = Changes::new(session, bucket, now);
        let mut some = Vec::new();
        while !changes.is_full()
            && let Some((record, stored)) = ahead.next()
        {
            let (_, id, listed) = record;
            let there = match stored {
                None => Found::Absent,
                Some(Ok(stored)) => Found::Record(stored.revision, stored.record),
                Some(Err(error)) => Found::Damaged(error),
            };
            let revision = match there {
                Found::Absent => None,
                Found::Record(revision, record) if record.is_forgotten(now) => Some(revision),
                // A record that does not check out is there, too.
                Found::Record(..) | Found::Damaged(_) => continue,
            };
            // A record that counts as absent is left out.
            if listed.record.is_forgotten(now) {
                continue;
            }
            let group = u16::try_from(some.len()).map_err(|_| strange())?;
            changes.record(group, id, &listed.operation, revision, Some(&listed.record));
            some.push(*record);
        }
        let lost = changes.commit().await?;
        for (group, record) in (0..).zip(some) {
            if lost.contains(&group) {
                again.push(record);
            } else {
                new[record.0] = true;
            }
        }
    }
    Ok(())
}

async fn add_entity(
    session: &Session,
    scope: &Scope,
    entity: &Entity,
    record: &EntityRecord,
) -> Result<bool> {
    if session.is_cluster() {
        return Err(ungated());
    }
    let mut changes = Changes::new(session, ONLY, semel_core::Timestamp::EPOCH);
    changes.entity(0, scope, entity, None, record);
    Ok(changes.commit().await?.is_empty())
}

async fn add_mark(session: &Session, mark: &Mark) -> Result<bool> {
    let mut add = session.on("HSETNX", ONLY, Name::Marks);
    add.arg(mark.name.as_bytes()).arg(mark.value);
    Ok(session.command(ONLY, &add).await? == Value::Int(1))
}

fn number(number: u64) -> Result<u16> {
    u16::try_from(number).map_err(|_| strange())
}

fn cursor_of(kind: u8, cursor: Option<&Bytes>) -> Bytes {
    let mut out = vec![CURSOR, kind];
    out.extend_from_slice(cursor.map_or(&[], |cursor| cursor));
    out.into()
}

fn foreign_export() -> Error {
    Error::new(
        ErrorKind::InvalidInput,
        "the cursor is not one of an export of this store",
    )
}

/// The bucket of data that a cluster does not spread: entities, which it does not have, and marks.
const ONLY: usize = 0;
/// The first byte of every cursor, and the kinds in their order.
const CURSOR: u8 = 0xe7;
const RECORDS: u8 = 0;
const ENTITIES: u8 = 1;
const MARKS: u8 = 2;
const PARKED: u8 = 3;
const AUDIT: u8 = 4;
