//! Everything out, page by page, and items of another store in.

use std::collections::HashMap;
use std::fmt::Write as _;

use bytes::Bytes;
use rusqlite::{Connection, Row, params};
use semel_core::port::store::{ListQuery, Listed, Page};
use semel_core::port::transfer::{ExportPage, Item};
use semel_core::{
    EntityRecord, Error, ErrorKind, FencingToken, Key, Mark, OpId, Operation, Result, Scope,
    Timestamp,
};

use crate::error::{corrupt, undone};
use crate::id_columns::tag;
use crate::ledger::Ledger;
use crate::lookup::{entity_record, load};
use crate::parked::park;
use crate::{audit, listing, row, sql};

/// Returns a page of everything. Each page is one snapshot of the file.
pub(crate) fn export(
    connection: &Connection,
    after: Option<&[u8]>,
    limit: usize,
    now: Timestamp,
) -> Result<Page<Item>> {
    let transaction = connection.unchecked_transaction().map_err(undone)?;
    let mut page = Exported {
        connection: &transaction,
        scopes: HashMap::new(),
        now,
        page: ExportPage::new(limit),
    };
    let mut position = if let Some(cursor) = after {
        Cursor::from_cursor(cursor)?
    } else {
        page.page.items.push(token(&transaction)?);
        Cursor::Records(i64::MIN)
    };
    loop {
        let room = page.page.room(position.at_once());
        if room == 0 {
            break;
        }
        match page.fill(&position, room)?.or_else(|| position.next_kind()) {
            Some(next) => position = next,
            None => {
                return Ok(Page {
                    items: page.page.items,
                    next: None,
                });
            }
        }
    }
    Ok(Page {
        items: page.page.items,
        next: Some(position.to_cursor()),
    })
}

/// Adds items; returns for each whether it is new. XFR-2.
pub(crate) fn import(ledger: &mut Ledger<'_>, items: &[Item], ids: &[OpId]) -> Result<Vec<bool>> {
    let mut new = vec![false; items.len()];
    let records = items
        .iter()
        .enumerate()
        .filter_map(|(at, item)| match item {
            Item::Record(listed) => Some((at, &**listed)),
            Item::Token(_)
            | Item::Entity(..)
            | Item::Mark(_)
            | Item::Parked(_)
            | Item::Audited(_) => None,
        });
    // In the order of the index, so that each of its pages is touched once.
    let mut records: Vec<_> = records
        .zip(ids)
        .map(|(it, id)| (tag(*id), it, id))
        .collect();
    records.sort_unstable_by_key(|(tag, (at, _), _)| (*tag, *at));
    add_records(ledger, &records, &mut new)?;
    for (at, item) in items.iter().enumerate() {
        match item {
            Item::Record(_) => {}
            Item::Token(token) => new[at] = ledger.raise_token(token.get())?,
            Item::Entity(scope, entity, record) => {
                new[at] = add_entity(ledger, scope, entity, record)?;
            }
            Item::Mark(mark) => new[at] = add_mark(ledger.connection, mark)?,
            Item::Parked(message) => {
                new[at] = park(ledger, message.id(), message, message.since)?;
            }
            Item::Audited(entry) => new[at] = ledger.import_audited(entry)?,
        }
    }
    Ok(new)
}

/// A record with its tag, its place in the batch and its id.
type Incoming<'i> = (i64, (usize, &'i Listed), &'i OpId);

fn add_records(ledger: &mut Ledger<'_>, records: &[Incoming<'_>], new: &mut [bool]) -> Result<()> {
    let connection = ledger.connection;
    let known = known_tags(connection, records)?;
    let mut get = connection.prepare_cached(sql::RECORD_GET).map_err(undone)?;
    let mut add = connection.prepare_cached(sql::RECORD_ADD).map_err(undone)?;
    let mut set = connection.prepare_cached(sql::RECORD_SET).map_err(undone)?;
    let (mut scope, mut before) = (None, None);
    for (tag, (at, listed), id) in records {
        let Listed { operation, record } = listed;
        let is_seen = before == Some(*tag) || known.binary_search(tag).is_ok();
        before = Some(*tag);
        let found = if is_seen {
            load(&mut get, **id, false)?
        } else {
            None
        };
        new[*at] = match found {
            None => {
                let number = match &scope {
                    Some((known, number)) if *known == &operation.scope => *number,
                    _ => ledger.scope(&operation.scope)?,
                };
                scope = Some((&operation.scope, number));
                row::insert(&mut add, **id, record, (number, &operation.key)).map_err(undone)?;
                true
            }
            Some((seq, Ok(known))) if known.is_forgotten(ledger.now) => {
                row::update(&mut set, seq, record).map_err(undone)?;
                true
            }
            // A record that does not check out is there, too.
            Some(_) => false,
        };
    }
    Ok(())
}

/// Returns those of the tags that are stored already, in their order. Another operation may have
/// the same tag.
fn known_tags(connection: &Connection, records: &[Incoming<'_>]) -> Result<Vec<i64>> {
    let mut wanted = String::with_capacity(records.len() * 21 + 2);
    for (tag, _, _) in records {
        wanted.push(if wanted.is_empty() { '[' } else { ',' });
        // Writing to a string does not fail.
        let _ = write!(wanted, "{tag}");
    }
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    wanted.push(']');
    let mut select = connection
        .prepare_cached(sql::RECORD_TAGS)
        .map_err(undone)?;
    let mut rows = select.query([wanted]).map_err(undone)?;
    let mut known = Vec::new();
    while let Some(row) = rows.next().map_err(undone)? {
        known.push(row.get(0).map_err(undone)?);
    }
    Ok(known)
}

/// A page in the making.
struct Exported<'c> {
    connection: &'c Connection,
    /// The scopes of its items, by number.
    scopes: HashMap<i64, Scope>,
    now: Timestamp,
    page: ExportPage,
}

impl Exported<'_> {
    /// Adds up to `most` items behind `position`, of its kind; returns where to continue, if there may be more
    /// of it.
    fn fill(&mut self, position: &Cursor, most: usize) -> Result<Option<Cursor>> {
        let room = i64::try_from(most).unwrap_or(i64::MAX);
        let mut visited = 0;
        let mut last = None;
        let prepare = |text| self.connection.prepare_cached(text).map_err(undone);
        match position {
            Cursor::Records(after) => {
                let mut select = prepare(sql::RECORD_EXPORT)?;
                let mut rows = select.query([*after, room]).map_err(undone)?;
                while let Some(row) = rows.next().map_err(undone)? {
                    visited += 1;
                    last = Some(Cursor::Records(row.get(row::COLUMNS).map_err(undone)?));
                    let record = row::read(row)?;
                    if !record.is_forgotten(self.now) {
                        let key = row::key(row.get_ref(row::COLUMNS + 2).map_err(undone)?)?;
                        let key = key.ok_or_else(|| corrupt("key"))?;
                        let scope =
                            scope(self.connection, &mut self.scopes, (row, row::COLUMNS + 1))?;
                        let operation = Operation::new(scope, key);
                        self.page
                            .items
                            .push(Item::Record(Box::new(Listed { operation, record })));
                        // Its outcome may be large.
                        if self.page.room(1) == 0 {
                            return Ok(last);
                        }
                    }
                }
            }
            Cursor::Entities(after) => {
                let mut select = prepare(sql::ENTITY_EXPORT)?;
                let mut rows = select.query(params![after, room]).map_err(undone)?;
                while let Some(row) = rows.next().map_err(undone)? {
                    visited += 1;
                    last = Some(Cursor::Entities(row.get(0).map_err(undone)?));
                    let entity = row::key(row.get_ref(2).map_err(undone)?)?;
                    let entity = entity.ok_or_else(|| corrupt("entity"))?;
                    let record = entity_record(row, 3).map_err(undone)?;
                    let scope = scope(self.connection, &mut self.scopes, (row, 1))?;
                    self.page.items.push(Item::Entity(scope, entity, record));
                }
            }
            Cursor::Marks(after) => {
                let mut select = prepare(sql::MARK_EXPORT)?;
                let mut rows = select.query(params![after, room]).map_err(undone)?;
                while let Some(row) = rows.next().map_err(undone)? {
                    visited += 1;
                    let name: Box<str> = row.get(0).map_err(undone)?;
                    let value: i64 = row.get(1).map_err(undone)?;
                    self.page.items.push(Item::Mark(Mark {
                        name: (&*name).into(),
                        value: value.cast_unsigned(),
                    }));
                    last = Some(Cursor::Marks(Some(name)));
                }
            }
            Cursor::Parked(after) => {
                let all = ListQuery::default();
                let page = listing::parked_page(self.connection, *after, &all, most)?;
                let messages = page.items.into_iter();
                self.page
                    .items
                    .extend(messages.map(|it| Item::Parked(Box::new(it))));
                return Ok(page.next.map(Cursor::Parked));
            }
            Cursor::Audit(after) => {
                let all = ListQuery::default();
                let page = audit::page(self.connection, *after, &all, most)?;
                let entries = page.items.into_iter();
                self.page
                    .items
                    .extend(entries.map(|it| Item::Audited(Box::new(it))));
                return Ok(page.next.map(Cursor::Audit));
            }
        }
        Ok(last.filter(|_| visited == room))
    }
}

/// Messages that are read at once.
const MESSAGES_AT_ONCE: usize = 1;

/// Contents of a cursor: the next item is of this kind and behind this one.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Cursor {
    Records(i64),
    Entities(Vec<u8>),
    Marks(Option<Box<str>>),
    Parked(i64),
    Audit(i64),
}

impl Cursor {
    /// The most items that are read at once from here: any of them may be large, and a page cannot say no to one that was
    /// read.
    const fn at_once(&self) -> usize {
        match self {
            Self::Parked(_) => MESSAGES_AT_ONCE,
            Self::Records(_) | Self::Entities(_) | Self::Marks(_) | Self::Audit(_) => usize::MAX,
        }
    }

    /// The beginning of the kind that comes after this one.
    fn next_kind(&self) -> Option<Self> {
        match self {
            Self::Records(_) => Some(Self::Entities(Vec::new())),
            Self::Entities(_) => Some(Self::Marks(None)),
            Self::Marks(_) => Some(Self::Parked(i64::MIN)),
            Self::Parked(_) => Some(Self::Audit(i64::MIN)),
            Self::Audit(_) => None,
        }
    }

    fn to_cursor(&self) -> Bytes {
        let (kind, after) = match self {
            Self::Records(seq) => (b'r', seq.to_be_bytes().to_vec()),
            Self::Entities(id) => (b'e', id.clone()),
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
            Error::new(
                ErrorKind::InvalidInput,
                "the cursor is not one of an export of this store",
            )
        })
    }

    fn read(cursor: &[u8]) -> Option<Self> {
        let [CURSOR, kind, after @ ..] = cursor else {
            return None;
        };
        let seq = || after.try_into().ok().map(i64::from_be_bytes);
        match kind {
            b'r' => seq().map(Self::Records),
            b'e' if matches!(after.len(), 0 | 32) => Some(Self::Entities(after.to_vec())),
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

fn token(connection: &Connection) -> Result<Item> {
    let mut get = connection.prepare_cached(sql::META_GET).map_err(undone)?;
    let token: i64 = get.query_row(["token"], |row| row.get(0)).map_err(undone)?;
    Ok(Item::Token(FencingToken::new(token.cast_unsigned())))
}

/// Returns the scope that has its number in a column; one that no item before it had is read.
fn scope(
    connection: &Connection,
    scopes: &mut HashMap<i64, Scope>,
    (row, column): (&Row<'_>, usize),
) -> Result<Scope> {
    let number: i64 = row.get(column).map_err(undone)?;
    if let Some(known) = scopes.get(&number) {
        return Ok(known.clone());
    }
    let mut find = connection.prepare_cached(sql::SCOPE_FIND).map_err(undone)?;
    let mut rows = find.query([number]).map_err(undone)?;
    let found = rows.next().map_err(undone)?;
    let found = listing::scope_at(found.ok_or_else(|| corrupt("scope"))?, 0)?;
    scopes.insert(number, found.clone());
    Ok(found)
}

fn add_entity(
    ledger: &mut Ledger<'_>,
    scope: &Scope,
    entity: &Key,
    record: &EntityRecord,
) -> Result<bool> {
    let number = ledger.scope(scope)?;
    let mut add = ledger
        .connection
        .prepare_cached(sql::ENTITY_ADD)
        .map_err(undone)?;
    let added = add.execute(params![
        &OpId::of(scope, entity).as_bytes()[..],
        number,
        entity.as_str(),
        record.applied.map(u64::cast_signed),
        record.holder.map(|(claim, _)| claim.to_bytes()),
        record.holder.map(|(_, until)| row::millis(until)),
    ]);
    Ok(added.map_err(undone)? > 0)
}

fn add_mark(connection: &Connection, mark: &Mark) -> Result<bool> {
    let mut add = connection.prepare_cached(sql::MARK_ADD).map_err(undone)?;
    let added = add.execute(params![&*mark.name, mark.value.cast_signed()]);
    Ok(added.map_err(undone)? > 0)
}

/// The first byte of every cursor.
const CURSOR: u8 = 0xe5;
