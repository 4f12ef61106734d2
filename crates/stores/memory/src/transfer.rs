//! Everything out and in. A cursor names the next kind of items, and the item that they are behind.

use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use semel_core::port::store::Page;
use semel_core::port::transfer::{ExportPage, Item};
use semel_core::{Error, ErrorKind, FencingToken, Mark, OpId, ParkedId, Result, Timestamp};

use crate::state::State;

/// Returns a page of everything.
pub(crate) fn export(
    state: &State,
    after: Option<&[u8]>,
    limit: usize,
    now: Timestamp,
) -> Result<Page<Item>> {
    let mut page = ExportPage::new(limit);
    let mut position = if let Some(cursor) = after {
        Cursor::decode(cursor)
            .ok_or_else(|| Error::new(ErrorKind::InvalidInput, "this is no cursor of this store"))?
    } else {
        page.items.push(Item::Token(FencingToken::new(state.token)));
        Cursor::Records(None)
    };
    while page.room(1) > 0 {
        let next = fill(&mut page, state, &position, now);
        match next.or_else(|| position.next_kind()) {
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
        next: Some(position.encode()),
    })
}

/// Adds items from `position` on, of its kind; returns where to continue if there are more.
fn fill(page: &mut ExportPage, state: &State, position: &Cursor, now: Timestamp) -> Option<Cursor> {
    match position {
        Cursor::Records(after) => {
            let mut last = *after;
            for (id, listed) in state.records.range(behind(*after)) {
                if page.room(1) == 0 {
                    return Some(Cursor::Records(last));
                }
                last = Some(*id);
                if !listed.record.is_forgotten(now) {
                    page.items.push(Item::Record(Box::new(listed.clone())));
                }
            }
        }
        Cursor::Entities(after) => {
            let mut last = *after;
            for (id, (scope, entity, record)) in state.entities.range(behind(*after)) {
                if page.room(1) == 0 {
                    return Some(Cursor::Entities(last));
                }
                last = Some(*id);
                let item = Item::Entity(scope.clone(), entity.clone(), record.clone());
                page.items.push(item);
            }
        }
        Cursor::Marks(after) => {
            let mut last = after.clone();
            for (name, value) in state.marks.range(behind(after.clone())) {
                if page.room(1) == 0 {
                    return Some(Cursor::Marks(last));
                }
                last = Some(Arc::clone(name));
                let mark = Mark {
                    name: name.clone(),
                    value: *value,
                };
                page.items.push(Item::Mark(mark));
            }
        }
        Cursor::Parked(after) => {
            let mut last = *after;
            for (id, message) in state.parked.range(behind(*after)) {
                if page.room(1) == 0 {
                    return Some(Cursor::Parked(last));
                }
                last = Some(*id);
                page.items.push(Item::Parked(Box::new(message.clone())));
            }
        }
        Cursor::Audit(from) => {
            for (at, entry) in state.audit.iter().enumerate().skip(*from) {
                if page.room(1) == 0 {
                    return Some(Cursor::Audit(at));
                }
                page.items.push(Item::Audited(Box::new(entry.clone())));
            }
        }
    }
    None
}

/// Everything behind a key; everything without one.
fn behind<K>(key: Option<K>) -> (Bound<K>, Bound<K>) {
    (
        key.map_or(Bound::Unbounded, Bound::Excluded),
        Bound::Unbounded,
    )
}

/// Contents of a cursor: the next item is of this kind and behind this one.
enum Cursor {
    Records(Option<OpId>),
    Entities(Option<OpId>),
    Marks(Option<Arc<str>>),
    Parked(Option<ParkedId>),
    /// The number of entries before it.
    Audit(usize),
}

impl Cursor {
    /// The beginning of the kind that comes after this one.
    fn next_kind(&self) -> Option<Self> {
        match self {
            Self::Records(_) => Some(Self::Entities(None)),
            Self::Entities(_) => Some(Self::Marks(None)),
            Self::Marks(_) => Some(Self::Parked(None)),
            Self::Parked(_) => Some(Self::Audit(0)),
            Self::Audit(_) => None,
        }
    }

    fn encode(&self) -> Bytes {
        let of_id = |id: &Option<OpId>| id.map_or_else(Vec::new, |id| id.as_bytes().to_vec());
        let (kind, after) = match self {
            Self::Records(id) => (b'r', of_id(id)),
            Self::Entities(id) => (b'e', of_id(id)),
            Self::Marks(None) => (b'm', Vec::new()),
            Self::Marks(Some(name)) => (b'n', name.as_bytes().to_vec()),
            Self::Parked(id) => (b'p', id.map_or_else(Vec::new, |id| id.to_bytes().to_vec())),
            Self::Audit(from) => (b'a', (*from as u64).to_be_bytes().to_vec()),
        };
        let mut cursor = vec![kind];
        cursor.extend(after);
        cursor.into()
    }

    fn decode(cursor: &[u8]) -> Option<Self> {
        let (kind, after) = cursor.split_first()?;
        let id = || match after {
            [] => Some(None),
            id => id.try_into().ok().map(|id| Some(OpId::from_bytes(id))),
        };
        match kind {
            b'r' => id().map(Self::Records),
            b'e' => id().map(Self::Entities),
            b'm' if after.is_empty() => Some(Self::Marks(None)),
            b'n' => {
                let name = std::str::from_utf8(after).ok()?;
                Some(Self::Marks(Some(name.into())))
            }
            b'p' if after.is_empty() => Some(Self::Parked(None)),
            b'p' => {
                let id = after.try_into().ok()?;
                Some(Self::Parked(Some(ParkedId::from_bytes(id))))
            }
            b'a' => {
                let from = u64::from_be_bytes(after.try_into().ok()?);
                usize::try_from(from).ok().map(Self::Audit)
            }
            _ => None,
        }
    }
}

/// Adds an item; returns whether it is new. A record that counts as absent is not there.
pub(crate) fn import(state: &mut State, item: &Item, now: Timestamp) -> bool {
    match item {
        Item::Token(token) => {
            let is_new = token.get() > state.token;
            state.token = state.token.max(token.get());
            is_new
        }
        Item::Record(listed) => {
            let id = listed.operation.id();
            let is_new = state.get(&listed.operation, now).is_none();
            if is_new {
                state.records.insert(id, (**listed).clone());
            }
            is_new
        }
        Item::Entity(scope, entity, record) => {
            let id = OpId::of(scope, entity);
            let is_new = !state.entities.contains_key(&id);
            if is_new {
                let known = (scope.clone(), entity.clone(), record.clone());
                state.entities.insert(id, known);
            }
            is_new
        }
        Item::Mark(mark) => {
            let is_new = !state.marks.contains_key(&mark.name);
            if is_new {
                state.marks.insert(mark.name.clone(), mark.value);
            }
            is_new
        }
        Item::Parked(message) => {
            let id = message.id();
            let is_new = !state.parked.contains_key(&id);
            if is_new {
                state.parked.insert(id, (**message).clone());
            }
            is_new
        }
        Item::Audited(entry) => {
            let is_new = !state.audit.contains(entry);
            if is_new {
                state.audit.push((**entry).clone());
            }
            is_new
        }
    }
}
