//! Everything out, page by page, and items of another store in.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use deadpool_postgres::Transaction;
use semel_core::port::store::{ListQuery, Listed, Page};
use semel_core::port::transfer::{ExportPage, Item};
use semel_core::{
    Audited, Entity, EntityRecord, Error, ErrorKind, FencingToken, Mark, OpId, Parked, Result,
    Scope, Timestamp,
};

use crate::columns::Columns;
use crate::connection::Runs;
use crate::error::{corrupt, undone};
use crate::listing::{key, now, operation_at, scope_at};
use crate::locked::{Stop, add_audited, entity_record};
use crate::parked::park_in;
use crate::rounds::id_at;
use crate::row::{self, millis};
use crate::session::{Session, store_scope};
use crate::transaction::{Job, transact};
use crate::{audit, parked};

/// Returns a page of everything.
pub(crate) async fn export(
    session: &Session,
    after: Option<&[u8]>,
    limit: usize,
) -> Result<Page<Item>> {
    let client = session.client().await?;
    let mut page = ExportPage::new(limit);
    let mut position = if let Some(cursor) = after {
        Cursor::from_cursor(cursor)?
    } else {
        let rows = session.run(&client, &session.texts.token, &[]).await?;
        let token = rows.first().map_or(Ok(0), |row| row.try_get::<_, i64>(0));
        let token = token.map_err(undone)?.cast_unsigned();
        page.items.push(Item::Token(FencingToken::new(token)));
        Cursor::Records(Bytes::new())
    };
    let mut export = Export {
        now: now(session, &client).await?,
        session,
        client: &client,
    };
    loop {
        let room = page.room(position.at_once());
        if room == 0 {
            break;
        }
        match export
            .fill(&position, room, &mut page.items)
            .await?
            .or_else(|| position.next_kind())
        {
            Some(next) => position = next,
            None => {
                return Ok(Page {
                    items: page.items,
                    next: None,
                });
            }
        }
    }
    Ok(Page {
        items: page.items,
        next: Some(position.to_cursor()),
    })
}

struct Export<'s> {
    session: &'s Session,
    client: &'s deadpool_postgres::Object,
    now: Timestamp,
}

impl Export<'_> {
    /// Adds the items behind `position`, of its kind; returns where to continue, if there may be more
    /// of it.
    async fn fill(
        &mut self,
        position: &Cursor,
        room: usize,
        items: &mut Vec<Item>,
    ) -> Result<Option<Cursor>> {
        let (session, client) = (self.session, self.client);
        let most = i64::try_from(room).unwrap_or(i64::MAX);
        match position {
            Cursor::Records(after) => {
                let text = &session.texts.record_export;
                let rows = session.run(client, text, &[&&**after, &most]).await?;
                for row in &rows {
                    let record = row::read(row)?;
                    if !record.is_forgotten(self.now) {
                        let operation = operation_at(row, row::COLUMNS + 2)?;
                        items.push(Item::Record(Box::new(Listed { operation, record })));
                    }
                }
                let last = rows.last().filter(|_| rows.len() == room);
                let last = last.map(|row| id_at(row, row::COLUMNS + 1)).transpose()?;
                Ok(last.map(|id| Cursor::Records(Bytes::copy_from_slice(id.as_bytes()))))
            }
            Cursor::Entities(after) => {
                let text = &session.texts.entity_export;
                let rows = session.run(client, text, &[&&**after, &most]).await?;
                for row in &rows {
                    let entity = key(row, 3)?.ok_or_else(|| corrupt("entity"))?;
                    items.push(Item::Entity(
                        scope_at(row, 1)?,
                        entity,
                        entity_record(row, 4)?,
                    ));
                }
                let last = rows.last().filter(|_| rows.len() == room);
                let last = last.map(|row| id_at(row, 0)).transpose()?;
                Ok(last.map(|id| Cursor::Entities(Bytes::copy_from_slice(id.as_bytes()))))
            }
            Cursor::Marks(after) => {
                let text = &session.texts.mark_export;
                let rows = session
                    .run(client, text, &[&after.as_deref(), &most])
                    .await?;
                let mut last = None;
                for row in &rows {
                    let name: &str = row.try_get(0).map_err(undone)?;
                    let value: i64 = row.try_get(1).map_err(undone)?;
                    items.push(Item::Mark(Mark {
                        name: name.into(),
                        value: value.cast_unsigned(),
                    }));
                    last = Some(name);
                }
                let last = last.filter(|_| rows.len() == room);
                Ok(last.map(|name| Cursor::Marks(Some(name.into()))))
            }
            Cursor::Parked(after) => {
                let all = ListQuery::default();
                let (some, next) = parked::page(session, client, *after, &all, room).await?;
                items.extend(some.into_iter().map(|it| Item::Parked(Box::new(it))));
                Ok(next.map(Cursor::Parked))
            }
            Cursor::Audit(after) => {
                let all = ListQuery::default();
                let (some, next) = audit::page(session, client, *after, &all, room).await?;
                items.extend(some.into_iter().map(|it| Item::Audited(Box::new(it))));
                Ok(next.map(Cursor::Audit))
            }
        }
    }
}

/// Adds items; returns for each whether it is new. XFR-2.
pub(crate) async fn import(session: &Session, items: &[Item]) -> Result<Vec<bool>> {
    transact(session, Import(items)).await
}

struct Import<'b>(&'b [Item]);

impl Job for Import<'_> {
    type Answer = Vec<bool>;

    async fn run(
        &mut self,
        session: &Session,
        transaction: &Transaction<'_>,
    ) -> Result<Self::Answer, Stop> {
        let mut new = vec![false; self.0.len()];
        let mut scopes = Scopes::default();
        let mut sorted = Sorted::default();
        for (at, item) in self.0.iter().enumerate() {
            match item {
                Item::Token(token) => {
                    new[at] = raise_token(session, transaction, *token).await?;
                }
                Item::Record(listed) => sorted.records.push((at, listed)),
                Item::Entity(scope, entity, record) => {
                    sorted.entities.push((at, scope, entity, record));
                }
                Item::Mark(mark) => {
                    let value = mark.value.cast_signed();
                    let text = &session.texts.mark_add;
                    let rows = transaction.rows(text, &[&&*mark.name, &value]).await?;
                    new[at] = !rows.is_empty();
                }
                Item::Parked(message) => sorted.parked.push((at, message)),
                Item::Audited(entry) => sorted.audited.push((at, entry)),
            }
        }
        let io = (session, transaction);
        add_records(io, &sorted.records, &mut scopes, &mut new).await?;
        add_entities(io, &sorted.entities, &mut scopes, &mut new).await?;
        let messages: Vec<&Parked> = sorted.parked.iter().map(|(_, it)| *it).collect();
        if !messages.is_empty() {
            let mut numbers = Vec::with_capacity(messages.len());
            for message in &messages {
                numbers.push(scopes.number(io, &message.scope).await?);
            }
            let since = |message: &Parked| Some(message.since);
            let added = park_in(session, transaction, &messages, &numbers, since).await?;
            for ((at, _), is_new) in sorted.parked.iter().zip(added) {
                new[*at] = is_new;
            }
        }
        add_entries(io, &sorted.audited, &mut scopes, &mut new).await?;
        Ok(new)
    }
}

/// Items by kind, each with its place.
#[derive(Default)]
struct Sorted<'b> {
    records: Vec<(usize, &'b Listed)>,
    entities: Vec<(usize, &'b Scope, &'b Entity, &'b EntityRecord)>,
    parked: Vec<(usize, &'b Parked)>,
    audited: Vec<(usize, &'b Audited)>,
}

type Io<'a, 't> = (&'a Session, &'a Transaction<'t>);

/// The numbers of scopes, as this transaction knows them.
#[derive(Default)]
struct Scopes(HashMap<Scope, i32>);

impl Scopes {
    async fn number(&mut self, io: Io<'_, '_>, scope: &Scope) -> Result<i32, Stop> {
        if let Some(number) = self.0.get(scope) {
            return Ok(*number);
        }
        let number = store_scope(io.1, &io.0.texts.scope, scope).await?;
        self.0.insert(scope.clone(), number);
        Ok(number)
    }
}

/// Gives out no token up to this one from here on; returns whether that changes anything. The lock
/// keeps others from drawing one in between.
async fn raise_token(
    session: &Session,
    transaction: &Transaction<'_>,
    token: FencingToken,
) -> Result<bool, Stop> {
    transaction
        .batch_execute(&session.texts.token_lock.sql)
        .await?;
    let value = token.get().cast_signed();
    let rows = transaction
        .rows(&session.texts.token_raise, &[&value])
        .await?;
    Ok(!rows.is_empty())
}

async fn add_records(
    io: Io<'_, '_>,
    records: &[(usize, &Listed)],
    scopes: &mut Scopes,
    new: &mut [bool],
) -> Result<(), Stop> {
    if records.is_empty() {
        return Ok(());
    }
    let ids: Vec<OpId> = records.iter().map(|(_, it)| it.operation.id()).collect();
    let (mut columns, mut seen) = (Columns::default(), HashSet::with_capacity(ids.len()));
    for (id, (_, listed)) in ids.iter().zip(records) {
        if seen.insert(*id) {
            let scope = scopes.number(io, &listed.operation.scope).await?;
            columns.push_new(id, scope, &listed.operation.key, &listed.record);
        }
    }
    let (session, transaction) = io;
    let asked: Vec<_> = ids.iter().map(|id| &id.as_bytes()[..]).collect();
    let now = session.given_now();
    transaction
        .rows(&session.texts.record_forget, &[&now, &asked])
        .await?;
    let rows = transaction
        .rows(&session.texts.insert, &columns.insert(false))
        .await?;
    let mut added = HashSet::with_capacity(rows.len());
    for row in &rows {
        added.insert(id_at(row, 0)?);
    }
    for (id, (at, _)) in ids.iter().zip(records) {
        new[*at] = added.remove(id);
    }
    Ok(())
}

async fn add_entities(
    io: Io<'_, '_>,
    entities: &[(usize, &Scope, &Entity, &EntityRecord)],
    scopes: &mut Scopes,
    new: &mut [bool],
) -> Result<(), Stop> {
    if entities.is_empty() {
        return Ok(());
    }
    let ids: Vec<OpId> = entities
        .iter()
        .map(|(_, scope, it, _)| OpId::of(scope, it))
        .collect();
    let mut seen = HashSet::new();
    let firsts: Vec<usize> = (0..ids.len()).filter(|at| seen.insert(ids[*at])).collect();
    let mut numbers = Vec::with_capacity(firsts.len());
    for at in &firsts {
        numbers.push(scopes.number(io, entities[*at].1).await?);
    }
    let asked: Vec<_> = firsts.iter().map(|at| &ids[*at].as_bytes()[..]).collect();
    let names: Vec<_> = firsts.iter().map(|at| entities[*at].2.as_bytes()).collect();
    let records = || firsts.iter().map(|at| entities[*at].3);
    let applied: Vec<_> = records()
        .map(|it| it.applied.map(u64::cast_signed))
        .collect();
    let holders: Vec<_> = records()
        .map(|it| it.holder.map(|(claim, _)| claim.to_bytes().to_vec()))
        .collect();
    let untils: Vec<_> = records()
        .map(|it| it.holder.map(|(_, until)| millis(until)))
        .collect();
    let (session, transaction) = io;
    let rows = transaction
        .rows(
            &session.texts.entity_insert,
            &[&asked, &numbers, &names, &applied, &holders, &untils],
        )
        .await?;
    let mut added = HashSet::with_capacity(rows.len());
    for row in &rows {
        added.insert(id_at(row, 0)?);
    }
    for (id, (at, ..)) in ids.iter().zip(entities) {
        new[*at] = added.remove(id);
    }
    Ok(())
}

/// Adds entries that are not there; two entries are the same only if all their fields are.
async fn add_entries(
    io: Io<'_, '_>,
    entries: &[(usize, &Audited)],
    scopes: &mut Scopes,
    new: &mut [bool],
) -> Result<(), Stop> {
    let (session, transaction) = io;
    for (at, entry) in entries {
        let scope = match &entry.scope {
            Some(scope) => Some(scopes.number(io, scope).await?),
            None => None,
        };
        let found = transaction
            .rows(
                &session.texts.audit_find,
                &[
                    &millis(entry.at),
                    &row::text(&entry.note.by),
                    &row::text(&entry.note.reason),
                    &row::text(&entry.action),
                    &scope,
                    &entry.key.as_ref().map(semel_core::Key::as_bytes),
                    &row::text(&entry.before),
                    &row::text(&entry.after),
                ],
            )
            .await?;
        if found.is_empty() {
            let entry = std::slice::from_ref(*entry);
            add_audited(transaction, &session.texts, entry, &[scope]).await?;
            new[*at] = true;
        }
    }
    Ok(())
}

/// Contents of a cursor: the next item is of this kind and behind this one.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Cursor {
    Records(Bytes),
    Entities(Bytes),
    Marks(Option<Box<str>>),
    Parked(i64),
    Audit(i64),
}

impl Cursor {
    /// The most items that are read at once from here: any of them may be large, and a page cannot say no to one that was
    /// read.
    const fn at_once(&self) -> usize {
        match self {
            Self::Records(_) => RECORDS_AT_ONCE,
            Self::Parked(_) => MESSAGES_AT_ONCE,
            Self::Entities(_) | Self::Marks(_) | Self::Audit(_) => usize::MAX,
        }
    }

    /// The beginning of the kind that comes after this one.
    fn next_kind(&self) -> Option<Self> {
        match self {
            Self::Records(_) => Some(Self::Entities(Bytes::new())),
            Self::Entities(_) => Some(Self::Marks(None)),
            Self::Marks(_) => Some(Self::Parked(0)),
            Self::Parked(_) => Some(Self::Audit(0)),
            Self::Audit(_) => None,
        }
    }

    fn to_cursor(&self) -> Bytes {
        let (kind, after) = match self {
            Self::Records(id) => (b'r', id.to_vec()),
            Self::Entities(id) => (b'e', id.to_vec()),
            Self::Marks(None) => (b'm', Vec::new()),
            Self::Marks(Some(name)) => (b'n', name.as_bytes().to_vec()),
            Self::Parked(seq) => (b'p', seq.to_be_bytes().to_vec()),
            Self::Audit(seq) => (b'a', seq.to_be_bytes().to_vec()),
        };
        let mut cursor = vec![CURSOR, kind];
        cursor.extend(after);
        cursor.into()
    }

    fn from_cursor(cursor: &[u8]) -> Result<Self> {
        Self::read(cursor).ok_or_else(|| {
            let message = "the cursor is not one of an export of this store";
            Error::new(ErrorKind::InvalidInput, message)
        })
    }

    fn read(cursor: &[u8]) -> Option<Self> {
        let [CURSOR, kind, after @ ..] = cursor else {
            return None;
        };
        let id = || matches!(after.len(), 0 | 32).then(|| Bytes::copy_from_slice(after));
        let seq = || after.try_into().ok().map(i64::from_be_bytes);
        match kind {
            b'r' => id().map(Self::Records),
            b'e' => id().map(Self::Entities),
            b'm' if after.is_empty() => Some(Self::Marks(None)),
            b'n' => {
                let name = std::str::from_utf8(after).ok()?;
                Some(Self::Marks(Some(name.into())))
            }
            b'p' => seq().map(Self::Parked),
            b'a' => seq().map(Self::Audit),
            _ => None,
        }
    }
}

/// Records that are read at once.
const RECORDS_AT_ONCE: usize = 128;
/// Messages that are read at once.
const MESSAGES_AT_ONCE: usize = 8;
/// The first byte of every cursor.
const CURSOR: u8 = 0xe6;
